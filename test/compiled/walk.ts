/**
 * The walk of the page `service`: its `sh` blocks, run in order, line for line.
 *
 * What belongs to the whole machine is moved below one folder: paths, ports and names are replaced in the
 * text, and `systemctl` notes what it is asked for. Units are then started here as systemd would: as the user and
 * with the environment, the credentials and the state folder that they name. `busctl` says of the unit what systemd
 * would, so that commands find the settings as they would there.
 *
 * Root walks it as it stands. Anybody else has no user to make and no unit to ask: for these, everything belongs to
 * whoever runs this, and commands are told where the settings are.
 */
import { spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { findSystemUser } from "../../src/host/system_users.ts";
import { until } from "../support/until.ts";
import { START_LIMIT_MS } from "./executable.ts";

export interface WalkStep {
  readonly script: string;
  /** What the page shows below the block, if anything. */
  readonly shown: string | undefined;
}

export interface Walked extends WalkStep {
  readonly status: number;
  readonly output: string;
}

export interface WalkOptions {
  readonly folder: string;
  readonly port: number;
  /** The interface of the stand-in for GitHub. */
  readonly gitHubUrl: string;
}

const SETTINGS_FILE = "claviger.env";
const PATHS = { etc: "/etc/claviger", units: "/etc/systemd/system", bin: "/usr/local/bin" } as const;
const isRoot = process.getuid?.() === 0;

/** The `sh` blocks of a page, each with the plain block that follows it at once. */
export function readWalkSteps(markdown: string): WalkStep[] {
  const blocks = markdown.matchAll(/^```sh\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?/gms);
  return [...blocks].map(([, script = "", shown]) => ({ script, shown }));
}

/** Runs the steps, stops what they started, and then runs `afterwards`: what must work without the service, too. */
export async function walk(
  steps: readonly WalkStep[],
  { afterwards = [], ...options }: WalkOptions & { readonly afterwards?: readonly string[] },
): Promise<Walked[]> {
  const { folder, port, gitHubUrl } = options;
  const below = (name: string) => join(folder, name);
  for (const name of ["units", "bin", "sysusers.d"]) mkdirSync(below(name));
  // The service's user has to get there.
  chmodSync(folder, 0o755);

  const moved = (text: string) =>
    text
      .replaceAll(PATHS.units, below("units"))
      .replaceAll("/etc/sysusers.d", below("sysusers.d"))
      .replaceAll(PATHS.etc, below("etc"))
      .replaceAll(PATHS.bin, below("bin"))
      .replaceAll("/var/lib/claviger", below("state"))
      .replaceAll("/var/backups/claviger", below("backups"))
      .replaceAll("/var/tmp/rehearsal", below("rehearsal"))
      .replaceAll("/run/credentials/claviger.service", below("credentials"))
      .replaceAll("CLAVIGER_HOST=0.0.0.0", "CLAVIGER_HOST=127.0.0.1")
      .replaceAll("CLAVIGER_PORT=443", `CLAVIGER_PORT=${port}`)
      .replaceAll("https://licenses.example.org", `https://127.0.0.1:${port}`)
      .replaceAll("127.0.0.1:9464", "127.0.0.1:0");
  const movedBack = (text: string) =>
    text
      .replaceAll(below("state"), "/var/lib/claviger")
      .replaceAll(below("backups"), "/var/backups/claviger")
      .replaceAll(below("rehearsal"), "/var/tmp/rehearsal")
      // The port that every https address has.
      .replaceAll(`healthy at https://127.0.0.1:${port}`, "healthy at https://127.0.0.1")
      .replaceAll(`https://127.0.0.1:${port}`, "https://licenses.example.org");

  const asked = below("asked");
  const settings = below(`etc/${SETTINGS_FILE}`);
  const env = { PATH: `${below("bin")}:/usr/sbin:/usr/bin:/sbin:/bin` };
  // Its certificate is signed by itself, so that `health` and `curl` are told, as the page says.
  const prelude = `
claviger() {
  case $1 in
    systemd | version) command claviger "$@" ;;
    health) command claviger "$@" --ca ${below("etc")}/tls.crt ;;
    *) command claviger "$@" ${isRoot ? "" : `--env-file ${settings}`} ;;
  esac
}
curl() { command curl --cacert ${below("etc")}/tls.crt "$@"; }
systemctl() { echo "$*" >> ${asked}; }
${isRoot ? "" : OWN_FILES}
`;
  writeFileSync(below("bin/systemd-sysusers"), SYSUSERS, { mode: 0o755 });
  if (isRoot) {
    writeFileSync(below("bin/busctl"), `#!/bin/sh\nexec cat ${below("unit.json")}\n`, { mode: 0o755 });
    writeFileSync(below("unit.json"), describeUnit(new Map(), folder));
  }

  async function run(script: string, own: Readonly<Record<string, string>> = {}) {
    const shell = Bun.spawn(["sh", "-ec", `exec 2>&1\n${script}`], {
      cwd: folder,
      env: { ...env, ...own },
      stdout: "pipe",
    });
    const output = await new Response(shell.stdout).text();
    return { output, status: await shell.exited };
  }

  const unitOf = (name: string) =>
    readUnit(moved(readFileSync(below(`units/${name.replace(/\.service$/, "")}.service`), "utf8")));
  const runUnit = (unit: ReadonlyMap<string, readonly string[]>) =>
    run(`${isRoot ? "" : WITH_SETTINGS(settings)}${unit.get("ExecStart")?.[0] ?? ""}`);

  const canAnalyze = Bun.which("systemd-analyze", { PATH: env.PATH }) !== null;
  let service: RunningService | undefined;
  const walked: Walked[] = [];
  try {
    for (const { script, shown } of canAnalyze ? steps : steps.map(withoutAnalysis)) {
      rmSync(asked, { force: true });
      const step = await run(`${prelude}${moved(script)}`);
      if (script.includes(`${PATHS.etc}/${SETTINGS_FILE} <<`)) {
        appendFileSync(settings, `CLAVIGER_GITHUB_URL=${gitHubUrl}\n`);
        if (!isRoot) appendFileSync(settings, `CLAVIGER_DATA_DIR=${below("state")}\n`);
      }
      const calls = existsSync(asked) ? readFileSync(asked, "utf8").split("\n") : [];
      for (const call of calls) {
        const [, verb = "", name = ""] = /^(enable --now|start) (\S+)$/.exec(call) ?? [];
        if (verb === "" || name.endsWith(".timer")) continue;
        const unit = unitOf(name);
        if (verb === "start") {
          const ended = await runUnit(unit);
          step.output += ended.output;
          step.status ||= ended.status;
        } else {
          if (isRoot) writeFileSync(below("unit.json"), describeUnit(unit, folder));
          service = startService(unit, { path: env.PATH, folder, settings });
          const isHealthy = async () =>
            (await run(`claviger health --url https://127.0.0.1:${port} --ca etc/tls.crt`)).status === 0;
          await until(isHealthy, { what: `a service at ${port}`, limitMs: START_LIMIT_MS });
        }
      }
      walked.push({ script, shown, status: step.status, output: movedBack(step.output) });
      if (step.status !== 0) return walked;
    }
    await service?.stop();
    for (const script of afterwards) {
      const ended = UNIT_NAME.test(script) ? await runUnit(unitOf(script)) : await run(`${prelude}${script}`);
      walked.push({ script, shown: undefined, status: ended.status, output: movedBack(ended.output) });
    }
  } finally {
    await service?.stop();
  }
  return walked;
}

const UNIT_NAME = /^[\w-]+\.service$/;

/** In the place of systemd-sysusers, which would make what all the machine's files ask for. */
const SYSUSERS = `#!/bin/sh -e
grep -q '^u claviger - ' "$1"
[ $(id -u) != 0 ] || getent passwd claviger > /dev/null || useradd --system --no-create-home claviger
`;
/** For whoever may not give files away. */
const OWN_FILES = `install() { [ "$4" != -o ] || set -- -d -m 700 "$8"; command install "$@"; }`;

/** What commands of a unit are given where no unit can be asked. */
const WITH_SETTINGS = (settings: string) => `set -a; . ${settings}; set +a; exec `;

/** What busctl says of a unit, or of none. */
function describeUnit(unit: ReadonlyMap<string, readonly string[]>, folder: string): string {
  const pairs = (name: string, split: RegExp) =>
    (unit.get(name) ?? []).map((each) => split.exec(each)?.slice(1) ?? []);
  return [
    (unit.get("Environment") ?? []).map((each) => each.replaceAll("%n", "claviger.service")),
    pairs("EnvironmentFile", /^-?(.*)$/).map(([path]) => [path, true]),
    pairs("LoadCredential", /^([^:]+):(.*)$/),
    // Its folder is elsewhere: an absolute path stays one below /var/lib.
    (unit.get("StateDirectory") ?? []).map(() => join("../..", folder, "state")),
  ]
    .map((data) => JSON.stringify({ data }))
    .join("\n");
}

/** For a machine without systemd's tools: the score is not asked for. */
function withoutAnalysis({ script, shown }: WalkStep): WalkStep {
  const lines = script.split("\n").filter((line) => !line.startsWith("systemd-analyze "));
  return { script: lines.join("\n"), shown: script.includes("systemd-analyze ") ? undefined : shown };
}

/** A unit's lines by name, read as systemd.syntax(7) and systemd.service(5) say of `%%` and `$$`. */
function readUnit(text: string): Map<string, string[]> {
  const lines = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [, name = "", value = ""] = /^(\w+)=(.*)$/.exec(line) ?? [];
    const read = name === "ExecStart" ? value.replaceAll("%%", "%").replaceAll("$$", "$") : value;
    lines.set(name, [...(lines.get(name) ?? []), read]);
  }
  return lines;
}

interface RunningService {
  stop(): Promise<void>;
}

/**
 * What systemd does: settings from the file over those of the unit, credentials that the service's user alone can
 * read, a folder for state, and that user.
 */
function startService(
  unit: ReadonlyMap<string, readonly string[]>,
  { path, folder, settings }: { readonly path: string; readonly folder: string; readonly settings: string },
): RunningService {
  const user = isRoot ? findSystemUser(unit.get("User")?.[0] ?? "") : undefined;
  const credentials = join(folder, "credentials");
  mkdirSync(credentials);
  for (const each of unit.get("LoadCredential") ?? []) {
    const [, name = "", from = ""] = /^([^:]+):(.*)$/.exec(each) ?? [];
    copyFileSync(from, join(credentials, name));
    chmodSync(join(credentials, name), 0o400);
    if (user !== undefined) chownSync(join(credentials, name), user.uid, user.gid);
  }
  const own = [...(unit.get("Environment") ?? []), ...readFileSync(settings, "utf8").split("\n")]
    .filter((line) => line.includes("="))
    .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)] as const)
    .map(([name, value]) => [name, value.replaceAll("/run/credentials/%n", credentials)] as const);
  const log = openSync(join(folder, "service.log"), "w");
  const [program = "", ...args] = (unit.get("ExecStart")?.[0] ?? "").split(" ");
  const child = spawn(program, args, {
    cwd: "/",
    env: {
      PATH: path,
      ...Object.fromEntries(own),
      STATE_DIRECTORY: join(folder, "state"),
      CREDENTIALS_DIRECTORY: credentials,
    },
    stdio: ["ignore", log, log],
    ...(user !== undefined && { uid: user.uid, gid: user.gid }),
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return {
    async stop() {
      child.kill("SIGTERM");
      await ended;
      rmSync(credentials, { recursive: true, force: true });
    },
  };
}
