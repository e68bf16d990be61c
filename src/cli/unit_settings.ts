/**
 * Reads the settings and credentials that the unit gives the service, for commands. Most settings of an installation
 * can be in the unit, and only the service gets the certificate and the keys. So root's commands ask systemd for them,
 * whether the service runs or not. Other users cannot read the credentials: their commands use the settings that they
 * can see, and say that the service may have more.
 *
 * `systemctl show` has no form for `LoadCredential=` (it prints `[unprintable]`). So `busctl` is
 * asked, which prints every property as JSON.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { type ConfigSource, DEFAULT_ENV_FILE, type UnitSettings } from "../config/mod.ts";
import { findTool } from "../host/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { hasCode } from "../system_error.ts";

const UNIT = "claviger.service";
const UNIT_FILE = `/etc/systemd/system/${UNIT}`;
/** Where the credentials of a unit are while its service runs. */
const CREDENTIALS_FOLDER = `/run/credentials/${UNIT}`;
const STATE_FOLDER = "/var/lib";

const ASK = [
  "--json=short",
  "get-property",
  "org.freedesktop.systemd1",
  `/org/freedesktop/systemd1/unit/${UNIT.replace(".", "_2e")}`,
];
const PROPERTIES = [
  "org.freedesktop.systemd1.Service",
  "Environment",
  "EnvironmentFiles",
  "LoadCredential",
  "StateDirectory",
];
const ANSWER_LIMIT_MS = 5_000;
const ANSWER_LIMIT_BYTES = 256 * 1024;

const strings = v.object({ data: v.array(v.string()) });
/** A line for each property, in the order of {@linkcode PROPERTIES}. Source: org.freedesktop.systemd1(5). */
const answer = v.tuple([
  strings,
  v.object({ data: v.array(v.tuple([v.string(), v.boolean()])) }),
  v.object({ data: v.array(v.tuple([v.string(), v.string()])) }),
  strings,
]);

const stateAnswer = v.pipe(v.string(), v.parseJson(), v.object({ data: v.string() }));
/** In every other state systemd has removed the copies of the credentials, or removes them soon. Source: systemd(1). */
const UP: ReadonlySet<string> = new Set(["active", "reloading", "deactivating"]);

const NOT_ROOT = { why: "this user may not read the service's settings", remedy: "run as root" };
const START_BUS = "run `systemctl start dbus`, and check that `busctl` works";

/**
 * Adds the unit's settings, or the reason why they cannot be seen. A command does not need them if `--env-file` names
 * its settings file, or if a unit runs the command with its own state folder or credentials.
 */
export function withUnitSettings(source: ConfigSource, credentialsFolder = CREDENTIALS_FOLDER): ConfigSource {
  const { env, envFile, isRoot } = source;
  if (envFile !== undefined || env.CREDENTIALS_DIRECTORY || env.STATE_DIRECTORY) return source;
  if (!isRoot) return isHidden() ? { ...source, unseen: NOT_ROOT } : source;
  const unit = askUnit(env.PATH ?? "", credentialsFolder);
  return isRefusal(unit)
    ? { ...source, unseen: { why: unit.sentence, remedy: START_BUS } }
    : { ...source, unit };
}

/** Whether this user may see less than the service has. */
function isHidden(): boolean {
  if (existsSync(UNIT_FILE)) return true;
  try {
    accessSync(DEFAULT_ENV_FILE, constants.R_OK);
    return false;
  } catch (error) {
    return hasCode(error, "EACCES");
  }
}

/** Asks systemd for the unit's settings; undefined without such a unit, and without systemd. */
function askUnit(path: string, credentialsFolder: string): UnitSettings | Refusal | undefined {
  const folders = path.split(":").filter((folder) => folder.startsWith("/"));
  const busctl = findTool("busctl", folders);
  if (busctl === undefined) return undefined;
  const { status, stdout, stderr, error } = ask(busctl, PROPERTIES);
  if (status === 0) {
    const isUp = existsSync(credentialsFolder) && UP.has(stateOf(busctl));
    return parseUnit(stdout, { credentialsFolder, isUp });
  }
  // The host has the tool, but does not run systemd. Source: sd_booted(3).
  if (!existsSync("/run/systemd/system")) return undefined;
  const why = error?.message ?? (stderr.trim().split("\n")[0] || `it ended with ${status}`);
  return refuse("INVALID_REQUEST", `Cannot ask systemd for the settings of ${UNIT}: ${why}`);
}

function ask(busctl: string, properties: readonly string[]) {
  return spawnSync(busctl, [...ASK, ...properties], {
    encoding: "utf8",
    timeout: ANSWER_LIMIT_MS,
    killSignal: "SIGKILL",
    maxBuffer: ANSWER_LIMIT_BYTES,
  });
}

/** Returns the unit's `ActiveState`; an empty text if systemd does not tell it. */
function stateOf(busctl: string): string {
  const { stdout } = ask(busctl, ["org.freedesktop.systemd1.Unit", "ActiveState"]);
  const parsed = v.safeParse(stateAnswer, stdout);
  return parsed.success ? parsed.output.data : "";
}

/**
 * Reads busctl's answer. Returns undefined for a unit that does not exist: its properties are empty.
 *
 * The path of a credential is the path of the running service's copy, else the path of the original file: while systemd
 * restarts a failing service again and again, the copies come and go.
 */
export function parseUnit(
  text: string,
  { credentialsFolder = CREDENTIALS_FOLDER, isUp = false } = {},
): UnitSettings | Refusal | undefined {
  let lines: v.InferOutput<typeof answer>;
  try {
    lines = v.parse(
      answer,
      text
        .trim()
        .split("\n")
        .map((line): unknown => JSON.parse(line)),
    );
  } catch {
    return refuse("INVALID_REQUEST", `Cannot read systemd's answer about ${UNIT}: its form is unknown`);
  }
  const [environment, envFiles, loaded, [state]] = [
    lines[0].data,
    lines[1].data,
    lines[2].data,
    lines[3].data,
  ];
  if (environment.length + envFiles.length + loaded.length === 0 && state === undefined) return undefined;
  const credentials = new Map(
    // systemd looks for a name without a folder in its own folders.
    loaded
      .filter(([, source]) => source.startsWith("/"))
      .map(([name, source]) => {
        const copy = join(credentialsFolder, name);
        return [name, isUp && existsSync(copy) ? copy : source];
      }),
  );
  const env = environment.map((line) => {
    const at = line.indexOf("=");
    const value = line.slice(at + 1);
    const named = value.startsWith(`${credentialsFolder}/`) ? value.slice(credentialsFolder.length + 1) : "";
    return [line.slice(0, at), credentials.get(named) ?? value] as const;
  });
  return {
    name: UNIT,
    env: {
      ...Object.fromEntries(env),
      ...(state !== undefined && { STATE_DIRECTORY: join(STATE_FOLDER, state) }),
    },
    envFiles: envFiles.map(([path]) => path),
    credentials,
  };
}
