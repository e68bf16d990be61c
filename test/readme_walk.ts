/**
 * The README's walk from the file to a service: its `sh` blocks, run in order, line for line.
 *
 * What belongs to the whole machine is moved below one folder: paths, ports and names are replaced in the
 * text, and `systemctl` notes what it is asked for. Units are then started here as systemd would: with the
 * environment, the credentials and the state folder that they name.
 */
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { waitFor } from "./executable.ts";

export interface WalkStep {
  readonly script: string;
  /** What the README shows below the block, if anything. */
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

/** The `sh` blocks below a heading, each with the plain block that follows it at once. */
export function readWalkSteps(markdown: string, heading: string): WalkStep[] {
  const section = markdown.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const blocks = section.matchAll(/^```sh\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?/gms);
  return [...blocks].map(([, script = "", shown]) => ({ script, shown }));
}

/** Runs the steps, and stops what they started. */
export async function walk(steps: readonly WalkStep[], options: WalkOptions): Promise<Walked[]> {
  const { folder, port, gitHubUrl } = options;
  const below = (name: string) => join(folder, name);
  for (const name of ["etc", "units", "bin", "credentials", "backups", "state"]) mkdirSync(below(name));
  // As root its PostgreSQL is another user, who has to get there.
  for (const name of ["", "state"]) chmodSync(below(name), 0o755);

  const moved = (text: string) =>
    text
      .replaceAll(PATHS.units, below("units"))
      .replaceAll(PATHS.etc, below("etc"))
      .replaceAll(PATHS.bin, below("bin"))
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
  const env = { PATH: `${below("bin")}:/usr/bin:/bin`, CLAVIGER_DATA_DIR: below("state") };
  // Its certificate is signed by itself, so that `health` and `curl` are told, as the README says.
  const prelude = `
claviger() {
  case $1 in
    systemd | version) command claviger "$@" ;;
    health) command claviger "$@" --ca ${below("etc")}/tls.crt ;;
    *) command claviger "$@" --env-file ${below("etc")}/${SETTINGS_FILE} ;;
  esac
}
curl() { command curl --cacert ${below("etc")}/tls.crt "$@"; }
systemctl() { echo "$*" >> ${asked}; }
`;

  async function run(script: string, own: Readonly<Record<string, string>> = {}) {
    const shell = Bun.spawn(["sh", "-ec", `exec 2>&1\n${script}`], {
      cwd: folder,
      env: { ...env, ...own },
      stdout: "pipe",
    });
    const output = await new Response(shell.stdout).text();
    return { output, status: await shell.exited };
  }

  const canAnalyze = Bun.which("systemd-analyze", { PATH: env.PATH }) !== null;
  let service: Bun.Subprocess | undefined;
  const walked: Walked[] = [];
  try {
    for (const { script, shown } of canAnalyze ? steps : steps.map(withoutAnalysis)) {
      rmSync(asked, { force: true });
      const step = await run(`${prelude}${moved(script)}`);
      const settings = below(`etc/${SETTINGS_FILE}`);
      if (script.includes(`${PATHS.etc}/${SETTINGS_FILE} <<`)) {
        appendFileSync(settings, `CLAVIGER_GITHUB_URL=${gitHubUrl}\n`);
      }
      const calls = existsSync(asked) ? readFileSync(asked, "utf8").split("\n") : [];
      for (const call of calls) {
        const [, verb = "", name = ""] = /^(enable --now|start) (\S+)$/.exec(call) ?? [];
        if (verb === "" || name.endsWith(".timer")) continue;
        const file = below(`units/${name.replace(/\.service$/, "")}.service`);
        const unit = readUnit(moved(readFileSync(file, "utf8")));
        if (verb === "start") {
          const ended = await run(unit.get("ExecStart")?.[0] ?? "");
          step.output += ended.output;
          step.status ||= ended.status;
        } else {
          service = startService(unit, { env, folder, settings });
          await waitFor(`a service at ${port}`, async () =>
            (await run(`claviger health --url https://127.0.0.1:${port} --ca etc/tls.crt`)).status === 0
              ? true
              : undefined,
          );
        }
      }
      walked.push({ script, shown, status: step.status, output: movedBack(step.output) });
      if (step.status !== 0) break;
    }
  } finally {
    service?.kill("SIGTERM");
    await service?.exited;
  }
  return walked;
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

/** What systemd does: settings from the file over those of the unit, credentials copied, a folder for state. */
function startService(
  unit: ReadonlyMap<string, readonly string[]>,
  {
    env,
    folder,
    settings,
  }: { readonly env: Record<string, string>; readonly folder: string; readonly settings: string },
): Bun.Subprocess {
  const credentials = join(folder, "credentials");
  for (const each of unit.get("LoadCredential") ?? []) {
    const [, name = "", path = ""] = /^([^:]+):(.*)$/.exec(each) ?? [];
    copyFileSync(path, join(credentials, name));
  }
  const own = [...(unit.get("Environment") ?? []), ...readFileSync(settings, "utf8").split("\n")]
    .filter((line) => line.includes("="))
    .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)] as const)
    .map(([name, value]) => [name, value.replaceAll("/run/credentials/%n", credentials)] as const);
  const { CLAVIGER_DATA_DIR = "", PATH = "" } = env;
  const log = join(folder, "service.log");
  writeFileSync(log, "");
  return Bun.spawn((unit.get("ExecStart")?.[0] ?? "").split(" "), {
    cwd: "/",
    env: {
      PATH,
      ...Object.fromEntries(own),
      STATE_DIRECTORY: CLAVIGER_DATA_DIR,
      CREDENTIALS_DIRECTORY: credentials,
    },
    stdout: Bun.file(log),
    stderr: Bun.file(log),
  });
}
