/**
 * An installation under the layout of its unit, in a temporary folder: executable, settings and state folder of an
 * ordinary user, whom root takes on. Its executable can be replaced by another version.
 */
import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NOBODY } from "../compiled/two_users.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { type ServiceProcess, spawnService } from "../support/service_process.ts";

export const PUBLIC_URL = "https://licenses.example.org";
const START_LIMIT_MS = 120_000;

// biome-ignore lint/suspicious/noExplicitAny: each command and each request has another document.
export type Document = any;

export interface Installation {
  /** The folder of the user, for files that commands read and write. */
  readonly folder: string;
  /** The data folder of the service. */
  readonly state: string;
  /** The addresses of the running service. */
  readonly url: string;
  readonly adminUrl: string;
  /** Tells whether this version has a command such as `tokens issue`, with the options that are named. */
  has(command: string): Promise<boolean>;
  /** Runs a command and returns its output; throws if it fails. */
  run(args: readonly string[], input?: string): Promise<string>;
  json(args: readonly string[], input?: string): Promise<Document>;
  /** Starts the service; `at` moves its clock and the clock of its commands. */
  start(at?: Date): Promise<void>;
  stop(): Promise<void>;
  /** Puts another executable in place of this one, and the state folder to where the new unit has it. */
  replaceBy(executable: string): void;
  remove(): Promise<void>;
}

export async function createInstallation(executable: string): Promise<Installation> {
  const folder = mkdtempSync(join(tmpdir(), "claviger-upgrade-"));
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  const own = (path: string) => user && chownSync(path, user.uid, user.gid);
  const place = (path: string) => join(folder, path);
  for (const path of ["usr", "etc", "var/lib/private/claviger", "tmp"])
    mkdirSync(place(path), { recursive: true });
  chmodSync(folder, 0o755);
  const [program, settingsFile, state] = [
    place("usr/claviger"),
    place("etc/claviger.env"),
    place("var/lib/claviger"),
  ];
  const dynamicState = place("var/lib/private/claviger");
  chmodSync(dynamicState, 0o700);
  // Other users may be unable to enter the checkout.
  copyFileSync(join(import.meta.dir, "../support/moved_clock.ts"), place("moved_clock.ts"));
  for (const path of [folder, dynamicState, place("tmp")]) own(path);
  const adminPort = await findFreePort();
  const settings: Record<string, string> = {
    CLAVIGER_PUBLIC_URL: PUBLIC_URL,
    CLAVIGER_PORT: String(await findFreePort()),
    CLAVIGER_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    CLAVIGER_LIMIT_REFRESH: "20",
    CLAVIGER_EVENTS_KEPT: "12",
  };
  let clock: Record<string, string> = {};
  let service: ServiceProcess | undefined;
  const environment = () => ({
    PATH: "/usr/bin:/bin",
    TMPDIR: place("tmp"),
    STATE_DIRECTORY: state,
    ...clock,
  });

  function putProgram(file: string): void {
    rmSync(program, { force: true });
    copyFileSync(file, program);
    chmodSync(program, 0o755);
  }

  function run(args: readonly string[], input = ""): Promise<string> {
    return new Promise((resolve, reject) => {
      // The mask of the unit: what a command writes is for its user.
      const line = 'umask 077; exec "$0" "$@"';
      const child = spawn("sh", ["-c", line, program, ...args, "--env-file", settingsFile], {
        ...user,
        cwd: folder,
        env: environment(),
      });
      const ended = { out: "", err: "" };
      child.stdout.setEncoding("utf8").on("data", (text: string) => (ended.out += text));
      child.stderr.setEncoding("utf8").on("data", (text: string) => (ended.err += text));
      child.stdin.on("error", () => {}).end(input);
      child.on("close", (status) =>
        status === 0 ? resolve(ended.out) : reject(new Error(`claviger ${args.join(" ")}: ${ended.err}`)),
      );
    });
  }

  /** Returns what a command prints that needs no installation. */
  async function print(words: readonly string[]): Promise<string> {
    const child = Bun.spawn([program, ...words], { stdout: "pipe", stderr: "ignore", env: {} });
    return await new Response(child.stdout).text();
  }
  const helps = new Map<string, string>();
  async function has(command: string): Promise<boolean> {
    const words = command.split(" ");
    const [name, options] = [
      words.filter((word) => !word.startsWith("--")),
      words.filter((word) => word.startsWith("--")),
    ];
    const key = name.join(" ");
    const help = helps.get(key) ?? (await print([...name, "--help"]));
    helps.set(key, help);
    return (
      help.startsWith(`Usage: claviger ${key}`) && options.every((option) => help.includes(` ${option} `))
    );
  }

  putProgram(executable);
  if (!(await has("tokens issue"))) delete settings.CLAVIGER_ADMIN_LISTEN;
  writeFileSync(
    settingsFile,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(""),
  );
  chmodSync(settingsFile, 0o600);
  own(settingsFile);
  // What systemd makes for DynamicUser=yes, and otherwise.
  if (/^DynamicUser=yes$/m.test(await print(["systemd"]))) symlinkSync("private/claviger", state);
  else renameSync(dynamicState, state);

  /** Starts the service until it runs, as the unit does (`Restart=always`): a busy machine can be too slow for it. */
  async function serve(): Promise<void> {
    const until = Date.now() + START_LIMIT_MS;
    for (;;) {
      service = spawnService(["sh", "-c", 'umask 077; exec "$0" serve', program], {
        ...{ user, cwd: "/", env: { ...environment(), ...settings } },
      });
      try {
        return await service.untilHealthy();
      } catch (error) {
        if (Date.now() > until) throw error;
      }
    }
  }

  async function stop(): Promise<number> {
    return service === undefined || service.hasEnded() ? 0 : await service.stop();
  }

  return {
    folder,
    state,
    url: `http://127.0.0.1:${settings.CLAVIGER_PORT}`,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    has,
    run,
    json: async (args, input) => JSON.parse(await run([...args, "--json"], input)),
    async start(at) {
      const offsets = { wallMs: (at?.getTime() ?? 0) - Date.now(), monotonicMs: 0 };
      clock =
        at === undefined
          ? {}
          : {
              // An executable made by Bun reads this variable too.
              BUN_OPTIONS: `--preload=${place("moved_clock.ts")}`,
              TEST_CLOCK_OFFSETS: JSON.stringify(offsets),
            };
      await serve();
    },
    async stop() {
      const status = await stop();
      if (status !== 0) throw new Error(`The service ended with ${status} after SIGTERM`);
    },
    replaceBy(file) {
      putProgram(file);
      helps.clear();
      if (!lstatSync(state).isSymbolicLink()) return;
      unlinkSync(state);
      renameSync(dynamicState, state);
    },
    async remove() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
