/**
 * Asks systemd where the service of this host has its data folder, its settings files and its credentials, so that a
 * command works on the same installation, whether the service runs or not. systemd tells every user. `old_unit.ts` has
 * what follows from settings in `Environment=`, which are not read.
 *
 * `systemctl show` has no form for `LoadCredential=` (it prints `[unprintable]`). So `busctl` is
 * asked, which prints every property as JSON.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { findTool } from "../base/host/mod.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { type ConfigSource, findSetting, type UnitSettings } from "../installation/config/mod.ts";

const UNIT = "claviger.service";
const STATE_FOLDER = "/var/lib";

const SYSTEMD = "org.freedesktop.systemd1";
/** Lists the services of `claviger@.service` that run or start with the host. */
const LIST = [
  ...["call", SYSTEMD, "/org/freedesktop/systemd1", `${SYSTEMD}.Manager`, "ListUnitsByPatterns", "asas"],
  ...["1", "loaded", "1", "claviger@*.service"],
];
const PROPERTIES = ["Environment", "EnvironmentFiles", "LoadCredential", "StateDirectory"];
const ANSWER_LIMIT_MS = 5_000;
const ANSWER_LIMIT_BYTES = 256 * 1024;

function line<const Item extends v.GenericSchema>(item: Item) {
  return v.pipe(v.string(), v.parseJson(), v.object({ data: v.array(item) }));
}

/** The answer to {@linkcode LIST}: the fields of each unit, of which the first is its name. */
const listed = line(v.array(v.looseTuple([v.string()])));

/** A line for each property, in the order of {@linkcode PROPERTIES}. Source: org.freedesktop.systemd1(5). */
const answer = v.tuple([
  line(v.string()),
  line(v.tuple([v.string(), v.boolean()])),
  line(v.tuple([v.string(), v.string()])),
  line(v.string()),
]);

const START_BUS = "run `systemctl start dbus`, and check that `busctl` works";

/**
 * Adds the unit's settings, or the reason why they cannot be seen. They do not apply to a command whose settings file is
 * named by `--env-file`, or which a unit runs with its own credentials. For such a command the unit has one effect: the
 * command does not take the default data folder while the service has another one. systemd is not asked at all for a
 * command to which a unit gives a state folder.
 */
export function withUnitSettings(source: ConfigSource): ConfigSource {
  const { env, envFile, flags } = source;
  const isOwn = envFile !== undefined || Boolean(env.CREDENTIALS_DIRECTORY);
  const namesFolder = Boolean(flags?.CLAVIGER_DATA_DIR || env.CLAVIGER_DATA_DIR);
  if (env.STATE_DIRECTORY || (isOwn && namesFolder)) return source;
  const unit = askUnit(env.PATH ?? "");
  if (isRefusal(unit)) {
    const unseen = { why: unit.sentence, remedy: START_BUS };
    return { ...source, unseenFolder: unseen, ...(!isOwn && { unseen }) };
  }
  return isOwn ? { ...source, otherUnit: unit } : { ...source, unit };
}

/**
 * Asks systemd for the unit's settings; undefined without such a unit, and without systemd. Where several services run
 * by `claviger@.service`, the first of them stands for all, because they share what commands need. The others are its
 * `siblings`.
 */
function askUnit(path: string): UnitSettings | Refusal | undefined {
  const busctl = findTool("busctl", foldersOf(path));
  if (busctl === undefined) return undefined;
  const list = ask(busctl, LIST);
  if (list === undefined || isRefusal(list)) return list;
  const answered = v.safeParse(listed, list);
  if (!answered.success)
    return refuse("INVALID_REQUEST", "Cannot read systemd's list of the services: its form is unknown");
  const names = answered.output.data.flat().map(([name]) => name);
  const units: UnitSettings[] = [];
  for (const name of names.length === 0 ? [UNIT] : names.sort()) {
    const unit = askOne(busctl, name);
    if (isRefusal(unit)) return unit;
    if (unit !== undefined) units.push(unit);
  }
  const [first, ...siblings] = units;
  return first && { ...first, siblings };
}

function askOne(busctl: string, name: string): UnitSettings | Refusal | undefined {
  const properties = [SYSTEMD, toBusPath(name), `${SYSTEMD}.Service`, ...PROPERTIES];
  const text = ask(busctl, ["get-property", ...properties]);
  return text === undefined || isRefusal(text) ? text : parseUnit(text, name);
}

const BACKUP_UNIT = "claviger-backup.service";

/** The command lines of a unit: the path of each program and its words. Source: org.freedesktop.systemd1(5). */
const commandLines = line(v.looseTuple([v.string(), v.array(v.string())]));

/** Options of `claviger backup` whose value can be a path, too. */
const OPTIONS_WITH_VALUE: ReadonlySet<string> = new Set(["--data-dir", "--env-file", "--keep"]);

/** Returns the folder into which the unit of the backup writes; undefined if systemd knows no such unit. */
export function findBackupsFolder({ PATH = "" }: ConfigSource["env"]): string | undefined {
  const busctl = findTool("busctl", foldersOf(PATH));
  const properties = [SYSTEMD, toBusPath(BACKUP_UNIT), `${SYSTEMD}.Service`, "ExecStart"];
  const text = busctl && ask(busctl, ["get-property", ...properties]);
  const answered = v.safeParse(commandLines, typeof text === "string" ? text.trim() : "");
  if (!answered.success) return undefined;
  const words = answered.output.data.map(([, words]) => words).find((each) => each.includes("backup"));
  const args = words?.slice(words.indexOf("backup")) ?? [];
  return args.find((word, at) => word.startsWith("/") && !OPTIONS_WITH_VALUE.has(args[at - 1] ?? ""));
}

function foldersOf(path: string): string[] {
  return path.split(":").filter((folder) => folder.startsWith("/"));
}

/** Returns the path of a unit on the bus. Source: sd_bus_path_encode(3). */
function toBusPath(unit: string): string {
  const encoded = unit.replace(/[^a-z0-9]/gi, (sign) => `_${sign.charCodeAt(0).toString(16)}`);
  return `/org/freedesktop/systemd1/unit/${encoded}`;
}

/** Returns the output of busctl; undefined if the host has the tool, but does not run systemd. */
function ask(busctl: string, args: readonly string[]): string | Refusal | undefined {
  const { status, stdout, stderr, error } = spawnSync(busctl, ["--json=short", ...args], {
    encoding: "utf8",
    timeout: ANSWER_LIMIT_MS,
    killSignal: "SIGKILL",
    maxBuffer: ANSWER_LIMIT_BYTES,
  });
  if (status === 0) return stdout;
  // Source: sd_booted(3).
  if (!existsSync("/run/systemd/system")) return undefined;
  const why = error?.message ?? (stderr.trim().split("\n")[0] || `it ended with ${status}`);
  return refuse("INVALID_REQUEST", `Cannot ask systemd for the settings of the service: ${why}`);
}

/**
 * Reads busctl's answer. Returns undefined for a unit that does not exist: its properties are empty.
 *
 * The path of a credential is the path of the original file: while systemd restarts a failing service again and again,
 * the copies come and go.
 */
export function parseUnit(text: string, unit = UNIT): UnitSettings | Refusal | undefined {
  const lines = v.safeParse(answer, text.trim().split("\n"));
  if (!lines.success)
    return refuse("INVALID_REQUEST", `Cannot read systemd's answer about ${unit}: its form is unknown`);
  const [{ data: environment }, { data: envFiles }, { data: loaded }, { data: states }] = lines.output;
  const [state] = states;
  if (environment.length + envFiles.length + loaded.length === 0 && state === undefined) return undefined;
  // systemd looks for a name without a folder in its own folders.
  const credentials = new Map(loaded.filter(([, path]) => path.startsWith("/")));
  const oldSettings = environment
    .map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)] as const)
    .filter(([name, value]) => findSetting(name) !== undefined && value !== "");
  return {
    name: unit,
    stateFolder: state === undefined ? undefined : join(STATE_FOLDER, state),
    oldSettings: new Map(oldSettings),
    envFiles: envFiles.map(([path]) => path),
    credentials,
    siblings: [],
  };
}
