/**
 * Runs the `sh` blocks of the page `service` in order, line by line.
 *
 * The steps change the whole machine, so the paths, ports and names in them are replaced by ones below one folder.
 * A stand-in for `systemctl` records its calls. The units are then started here as systemd would start them: with the
 * user, the settings file and the state folder that they name. A stand-in for `busctl` describes the unit as systemd
 * would, so that commands find the settings.
 *
 * Root runs the steps unchanged, with a stand-in for the alias. Another user cannot make the service's user: for such a
 * user all files belong to that user.
 */
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { findSystemUser } from "../../src/base/host/system_users.ts";
import { spawnService } from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { START_LIMIT_MS } from "./executable.ts";

export interface WalkStep {
  readonly script: string;
  /** The output that the page shows below the block, if any. */
  readonly shown: string | undefined;
}

export interface Walked extends WalkStep {
  readonly status: number;
  readonly output: string;
}

export interface WalkOptions {
  readonly folder: string;
  readonly port: number;
  /** The address of the stand-in for GitHub. */
  readonly gitHubUrl: string;
}

const SETTINGS_FILE = "claviger.env";
const PATHS = { etc: "/etc/claviger", units: "/etc/systemd/system", bin: "/usr/local/bin" } as const;
const isRoot = process.getuid?.() === 0;

/** Reads the `sh` blocks of a page, each with the plain block directly after it. */
export function readWalkSteps(markdown: string): WalkStep[] {
  const blocks = markdown.matchAll(/^```sh\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?/gms);
  return [...blocks].map(([, script = "", shown]) => ({ script, shown }));
}

/**
 * Runs the steps, stops the service that they started, and then runs `afterwards`: commands that must work
 * without it.
 */
export async function walk(
  steps: readonly WalkStep[],
  { afterwards = [], ...options }: WalkOptions & { readonly afterwards?: readonly string[] },
): Promise<Walked[]> {
  const { folder, port, gitHubUrl } = options;
  const below = (name: string) => join(folder, name);
  for (const name of ["units", "bin", "sysusers.d", "tmp"]) mkdirSync(below(name));
  chmodSync(below("tmp"), 0o1777);
  // The service's user must be able to enter.
  chmodSync(folder, 0o755);

  const moved = (text: string) =>
    text
      .replaceAll(PATHS.units, below("units"))
      .replaceAll("/etc/sysusers.d", below("sysusers.d"))
      .replaceAll(PATHS.etc, below("etc"))
      .replaceAll(PATHS.bin, below("bin"))
      .replaceAll("/var/lib/claviger", below("state"))
      .replaceAll("/var/backups/claviger", below("backups"))
      .replaceAll("/var/tmp/rehearsal", below("tmp/rehearsal"))
      .replaceAll("CLAVIGER_HOST=0.0.0.0", "CLAVIGER_HOST=127.0.0.1")
      .replaceAll("CLAVIGER_PORT=443", `CLAVIGER_PORT=${port}`)
      .replaceAll("https://licenses.example.org", `https://127.0.0.1:${port}`)
      .replaceAll("127.0.0.1:9464", "127.0.0.1:0");
  const movedBack = (text: string) =>
    text
      .replaceAll(below("state"), "/var/lib/claviger")
      .replaceAll(below("backups"), "/var/backups/claviger")
      .replaceAll(below("tmp/rehearsal"), "/var/tmp/rehearsal")
      // The default port of https.
      .replaceAll(`healthy at https://127.0.0.1:${port}`, "healthy at https://127.0.0.1")
      .replaceAll(`https://127.0.0.1:${port}`, "https://licenses.example.org");

  const asked = below("asked");
  const settings = below(`etc/${SETTINGS_FILE}`);
  const env = { PATH: `${below("bin")}:/usr/sbin:/usr/bin:/sbin:/bin` };
  // The certificate is self-signed, so `health` and `curl` get it as the trusted one, as the page says. `systemd` would
  // note that this host has no settings file: here it is in another folder.
  const prelude = `
claviger() {
  case $1 in
    systemd) command claviger "$@" 2> /dev/null ;;
    version) command claviger "$@" ;;
    health) command claviger "$@" --ca ${below("etc")}/tls.crt ;;
    *) ${isRoot ? AS_CLAVIGER : "command"} claviger "$@" ;;
  esac
}
alias() { :; }
curl() { command curl --cacert ${below("etc")}/tls.crt "$@"; }
systemctl() { echo "$*" >> ${asked}; }
${isRoot ? "" : OWN_FILES}
`;
  writeFileSync(below("bin/systemd-sysusers"), SYSUSERS, { mode: 0o755 });
  writeFileSync(below("bin/busctl"), describeUnits(below("unit.json")), { mode: 0o755 });
  writeFileSync(below("unit.json"), describeUnit(new Map(), folder));

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
    run(`${isRoot ? `${AS_CLAVIGER} ` : ""}${unit.get("ExecStart")?.[0] ?? ""}`);

  const canAnalyze = Bun.which("systemd-analyze", { PATH: env.PATH }) !== null;
  let service: ReturnType<typeof spawnService> | undefined;
  const walked: Walked[] = [];
  try {
    for (const { script, shown } of canAnalyze ? steps : steps.map(withoutAnalysis)) {
      rmSync(asked, { force: true });
      const step = await run(`${prelude}${moved(script)}`);
      if (script.includes(`${PATHS.etc}/${SETTINGS_FILE} <<`)) {
        appendFileSync(settings, `CLAVIGER_GITHUB_URL=${gitHubUrl}\n`);
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
          writeFileSync(below("unit.json"), describeUnit(unit, folder));
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

/** Replaces systemd-sysusers, which would make the users of every file on the machine. */
const SYSUSERS = `#!/bin/sh -e
grep -q '^u claviger - ' "$1"
[ $(id -u) != 0 ] || getent passwd claviger > /dev/null || useradd --system --no-create-home claviger
`;
/** Replaces the alias of the page: a script has no aliases. */
const AS_CLAVIGER = "setpriv --reuid=claviger --regid=claviger --clear-groups";
/** Replaces programs that give files to another user, for a user who may not do that. */
const OWN_FILES = `chgrp() { :; }
install() {
  case "$*" in *"-g claviger"*) set -- $(echo "$*" | sed "s/-o claviger//; s/-g claviger//") ;; esac
  command install "$@"
}`;

/** Returns a busctl that knows one unit, described in a file, and none of the template. */
function describeUnits(path: string): string {
  const list = JSON.stringify({ data: [[]] });
  return `#!/bin/sh\ncase "$*" in *ListUnits*) echo '${list}' ;; *) exec cat ${path} ;; esac\n`;
}

/** Returns the answer of busctl about a unit; an empty map stands for no unit. */
function describeUnit(unit: ReadonlyMap<string, readonly string[]>, folder: string): string {
  const pairs = (name: string, split: RegExp) =>
    (unit.get(name) ?? []).map((each) => split.exec(each)?.slice(1) ?? []);
  return [
    // Environment=
    [],
    pairs("EnvironmentFile", /^-?(.*)$/).map(([path]) => [path, true]),
    // LoadCredential=
    [],
    // The state folder is elsewhere: an absolute path would stay one below /var/lib.
    (unit.get("StateDirectory") ?? []).map(() => join("../..", folder, "state")),
  ]
    .map((data) => JSON.stringify({ data }))
    .join("\n");
}

/** Leaves out systemd-analyze on a machine without systemd's tools. */
function withoutAnalysis({ script, shown }: WalkStep): WalkStep {
  const lines = script.split("\n").filter((line) => !line.startsWith("systemd-analyze "));
  return { script: lines.join("\n"), shown: script.includes("systemd-analyze ") ? undefined : shown };
}

/** Reads a unit's lines by name. */
function readUnit(text: string): Map<string, string[]> {
  const lines = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [, name = "", value = ""] = /^(\w+)=(.*)$/.exec(line) ?? [];
    lines.set(name, [...(lines.get(name) ?? []), value]);
  }
  return lines;
}

/** Starts the service as systemd does: as its user, with a state folder, and with settings from the file. */
function startService(
  unit: ReadonlyMap<string, readonly string[]>,
  { path, folder, settings }: { readonly path: string; readonly folder: string; readonly settings: string },
) {
  const user = isRoot ? findSystemUser(unit.get("User")?.[0] ?? "") : undefined;
  const own = readFileSync(settings, "utf8")
    .split("\n")
    .filter((line) => line.includes("="))
    .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)] as const);
  const log = join(folder, "service.log");
  return spawnService((unit.get("ExecStart")?.[0] ?? "").split(" "), {
    cwd: "/",
    env: {
      PATH: path,
      ...Object.fromEntries(own),
      STATE_DIRECTORY: join(folder, "state"),
    },
    files: { out: log, err: log },
    user,
  });
}
