/**
 * Reads the settings that the unit gives the service, for commands. Most settings of an installation can be in the unit.
 * So commands ask systemd for them, whether the service runs or not; systemd tells every user.
 *
 * `systemctl show` has no form for `LoadCredential=` (it prints `[unprintable]`). So `busctl` is
 * asked, which prints every property as JSON.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import type { ConfigSource, UnitSettings } from "../config/mod.ts";
import { findTool } from "../host/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";

const UNIT = "claviger.service";
/** Where the copies of a unit's credentials are while its service runs. */
const CREDENTIALS_FOLDER = `/run/credentials/${UNIT}/`;
const STATE_FOLDER = "/var/lib";

const ASK = [
  "--json=short",
  "get-property",
  "org.freedesktop.systemd1",
  `/org/freedesktop/systemd1/unit/${UNIT.replace(".", "_2e")}`,
  "org.freedesktop.systemd1.Service",
  "Environment",
  "EnvironmentFiles",
  "LoadCredential",
  "StateDirectory",
];
const ANSWER_LIMIT_MS = 5_000;
const ANSWER_LIMIT_BYTES = 256 * 1024;

function line<const Item extends v.GenericSchema>(item: Item) {
  return v.pipe(v.string(), v.parseJson(), v.object({ data: v.array(item) }));
}

/** A line for each property, in the order of the properties in {@linkcode ASK}. Source: org.freedesktop.systemd1(5). */
const answer = v.tuple([
  line(v.string()),
  line(v.tuple([v.string(), v.boolean()])),
  line(v.tuple([v.string(), v.string()])),
  line(v.string()),
]);

const START_BUS = "run `systemctl start dbus`, and check that `busctl` works";

/**
 * Adds the unit's settings, or the reason why they cannot be seen. A command does not need them if `--env-file` names
 * its settings file, or if a unit runs the command with its own state folder or credentials.
 */
export function withUnitSettings(source: ConfigSource): ConfigSource {
  const { env, envFile } = source;
  if (envFile !== undefined || env.CREDENTIALS_DIRECTORY || env.STATE_DIRECTORY) return source;
  const unit = askUnit(env.PATH ?? "");
  return isRefusal(unit)
    ? { ...source, unseen: { why: unit.sentence, remedy: START_BUS } }
    : { ...source, unit };
}

/** Asks systemd for the unit's settings; undefined without such a unit, and without systemd. */
function askUnit(path: string): UnitSettings | Refusal | undefined {
  const folders = path.split(":").filter((folder) => folder.startsWith("/"));
  const busctl = findTool("busctl", folders);
  if (busctl === undefined) return undefined;
  const { status, stdout, stderr, error } = spawnSync(busctl, ASK, {
    encoding: "utf8",
    timeout: ANSWER_LIMIT_MS,
    killSignal: "SIGKILL",
    maxBuffer: ANSWER_LIMIT_BYTES,
  });
  if (status === 0) return parseUnit(stdout);
  // The host has the tool, but does not run systemd. Source: sd_booted(3).
  if (!existsSync("/run/systemd/system")) return undefined;
  const why = error?.message ?? (stderr.trim().split("\n")[0] || `it ended with ${status}`);
  return refuse("INVALID_REQUEST", `Cannot ask systemd for the settings of ${UNIT}: ${why}`);
}

/**
 * Reads busctl's answer. Returns undefined for a unit that does not exist: its properties are empty.
 *
 * The path of a credential is the path of the original file: while systemd restarts a failing service again and again,
 * the copies come and go.
 */
export function parseUnit(text: string): UnitSettings | Refusal | undefined {
  const lines = v.safeParse(answer, text.trim().split("\n"));
  if (!lines.success)
    return refuse("INVALID_REQUEST", `Cannot read systemd's answer about ${UNIT}: its form is unknown`);
  const [{ data: environment }, { data: envFiles }, { data: loaded }, { data: states }] = lines.output;
  const [state] = states;
  if (environment.length + envFiles.length + loaded.length === 0 && state === undefined) return undefined;
  // systemd looks for a name without a folder in its own folders.
  const credentials = new Map(loaded.filter(([, path]) => path.startsWith("/")));
  const env = environment.map((line) => {
    const at = line.indexOf("=");
    const value = line.slice(at + 1);
    const named = value.startsWith(CREDENTIALS_FOLDER) ? value.slice(CREDENTIALS_FOLDER.length) : "";
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
