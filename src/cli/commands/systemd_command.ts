/**
 * `claviger systemd`: prints the units with which systemd runs the service and its backup.
 *
 * A unit has no `Environment=`: the settings file has every setting, so the service and the commands read the same
 * file. The unit only has what systemd must do: the capability for a port below 1024, copies of files that only root
 * may read, or a group that may read them. `--settings` prints the lines of the settings file that belong to the unit.
 */
import { findSystemUser } from "../../base/host/mod.ts";
import { matching, wholeNumber } from "../../base/rule.ts";
import { readOrigin } from "../../base/version.ts";
import {
  createLookup,
  DEFAULT_ENV_FILE,
  parseSetting,
  refuseSameAddress,
  type SettingName,
  settingOf,
} from "../../installation/config/mod.ts";
import { command } from "../command.ts";
import { settingText } from "../options.ts";
import { flag, option, type ValuesOf } from "../parameter.ts";
import { WrongUsage } from "../run.ts";
import {
  BACKUP_UNITS,
  renderBackupUnit,
  renderUnit,
  SYSUSERS_LINE,
  toLine,
  type UnitSetting,
} from "../systemd_units.ts";

/** Refuses characters that have a special meaning in a unit or a settings file, such as `%`, `:`, quotes and the space. */
const PATH = matching(/^\/[\w./+@-]+$/, "an absolute path of letters, digits and . _ + @ -");
const GROUP = matching(/^[a-z_][a-z0-9_-]{0,31}$/, "the name of a group");

/** The options that give a setting. */
const SETTING_NAMES = {
  host: "CLAVIGER_HOST",
  port: "CLAVIGER_PORT",
  adminListen: "CLAVIGER_ADMIN_LISTEN",
  tlsCert: "CLAVIGER_TLS_CERT",
  tlsKey: "CLAVIGER_TLS_KEY",
  secret: "CLAVIGER_SECRET_FILE",
  githubKey: "CLAVIGER_GITHUB_PRIVATE_KEY_FILE",
} as const satisfies Readonly<Record<string, SettingName>>;

const OF_SERVICE = [...Object.keys(SETTING_NAMES), "tlsGroup", "settings"];

const OPTIONS = {
  binary: option("the path of the executable; by default where its package or the manual installs it", PATH, {
    as: "path",
    default: readOrigin() === "package" ? process.execPath : "/usr/local/bin/claviger",
  }),
  host: option("the address to listen on", settingText("CLAVIGER_HOST")),
  port: option(
    "the port to listen on; below 1024 the unit gets the capability for it",
    wholeNumber(1, 65_535),
  ),
  adminListen: option(
    "serve the console and the API for operators at this address; its port gets the capability, too",
    settingText("CLAVIGER_ADMIN_LISTEN"),
    { as: "host:port" },
  ),
  tlsCert: option("the certificate; a copy is given to the service as a credential", PATH, { as: "file" }),
  tlsKey: option("the certificate's private key; a copy is given to the service as a credential", PATH, {
    as: "file",
  }),
  tlsGroup: option(
    "give no credentials for TLS: the service reads both files as a member of this group",
    GROUP,
    { as: "group" },
  ),
  secret: option("the file of the root secret, which the user claviger must be able to read", PATH, {
    as: "file",
  }),
  githubKey: option(
    "the file of the GitHub App's private key, which the user claviger must be able to read",
    PATH,
    { as: "file" },
  ),
  settings: flag(
    "print the lines of /etc/claviger/claviger.env that the other options stand for, instead of the unit",
  ),
  unit: option(
    "print a unit of the hourly backup instead, or the unit that tells people when it failed",
    BACKUP_UNITS,
    {
      as: "name",
      conflicts: [...OF_SERVICE, "sysusers"],
    },
  ),
  template: flag("print the template claviger@.service, by which one host runs several services", {
    conflicts: ["port", "adminListen", "unit", "sysusers"],
  }),
  sysusers: flag("print the line for sysusers.d that creates the service's user, instead of the unit", {
    conflicts: OF_SERVICE,
  }),
};

export const systemd = command({
  name: "systemd",
  description: "print a hardened systemd unit for this service or its backup",
  options: OPTIONS,
  run(values, { invocation, print }) {
    if (values.unit !== undefined) return invocation.out(renderBackupUnit(values.unit, values.binary));
    if (values.sysusers) return invocation.out(SYSUSERS_LINE);
    refuseWrongOptions(values);
    const settings = toSettings(values);
    if (values.settings && settings.length === 0)
      throw new WrongUsage(
        "Cannot print settings: name at least one option that gives a setting, such as --port",
      );
    if (values.settings) return invocation.out(settings.map((each) => `${toLine(each)}\n`).join(""));
    invocation.out(renderUnit(values, settings));
    for (const note of notesOfSettings(values, settings)) print.note(note);
    const warning = warnOfUser(findSystemUser("claviger"));
    if (warning !== undefined) print.note(`claviger: ${warning}`);
  },
});

type Values = ValuesOf<typeof OPTIONS>;

/** Returns the settings for which the options stand, in the order of the options. */
function toSettings(values: Values): UnitSetting[] {
  return Object.entries(SETTING_NAMES).flatMap(([option, name]) => {
    const value = values[option as keyof typeof SETTING_NAMES];
    return value === undefined ? [] : [{ name, value: String(value) }];
  });
}

/** Returns what people must change in a settings file for the unit, line by line; none if it fits. */
export function notesOfSettings(
  { template }: Pick<Values, "template">,
  settings: readonly UnitSetting[],
  envFile?: string,
): string[] {
  const missing = findMissing(settings, envFile);
  const shared = template ? findShared(envFile) : [];
  const notes = missing.map((each) => `  ${toLine(each)}`);
  if (missing.length > 0)
    notes.unshift(
      `claviger: The service needs these lines in ${DEFAULT_ENV_FILE}; --settings prints them alone:`,
    );
  if (shared.length > 0)
    notes.push(
      `claviger: Only one service of this host can listen there: move ${shared.join(" and ")} from ${DEFAULT_ENV_FILE} ` +
        "to the files of the services, such as /etc/claviger/claviger@1.env, each with a port of its own",
    );
  return notes;
}

/**
 * Returns the settings that a settings file lacks or has with another value; all of them if this user may not read the
 * file, or if it is wrong.
 */
function findMissing(settings: readonly UnitSetting[], envFile?: string): readonly UnitSetting[] {
  try {
    const find = createLookup({ env: {}, envFile, workingFolder: "/", isRoot: false });
    return settings.filter(({ name, value }) => find(name).value !== value);
  } catch {
    return settings;
  }
}

/** The listeners that a service may lack. Each service of a template has its own port, or it does not start at all. */
const OWN_LISTENERS = [
  "CLAVIGER_METRICS_LISTEN",
  "CLAVIGER_ADMIN_LISTEN",
] as const satisfies readonly SettingName[];

/**
 * Returns the settings of a settings file that only one service of a template can have; none if this user may not read the
 * file, or if it is wrong.
 */
function findShared(envFile?: string): readonly SettingName[] {
  try {
    const find = createLookup({ env: {}, envFile, workingFolder: "/", isRoot: false });
    return OWN_LISTENERS.filter((name) => find(name).value !== "");
  } catch {
    return [];
  }
}

function refuseWrongOptions({ host, port, adminListen, tlsCert, tlsKey, tlsGroup }: Values): void {
  if ((tlsCert === undefined) !== (tlsKey === undefined)) {
    throw new WrongUsage("Cannot print the unit: --tls-cert and --tls-key go together");
  }
  if (tlsGroup !== undefined && tlsCert === undefined) {
    throw new WrongUsage("Cannot print the unit: --tls-group needs --tls-cert and --tls-key");
  }
  const same = refuseSameAddress({
    host: host ?? settingOf("CLAVIGER_HOST").default,
    port: port ?? Number(settingOf("CLAVIGER_PORT").default),
    adminListen: parseSetting("CLAVIGER_ADMIN_LISTEN", adminListen ?? ""),
  });
  if (same !== undefined) throw new WrongUsage(same.sentence);
}

/** The numbers of users that a unit with DynamicUser gets. Source: the page UIDS-GIDS of systemd. */
const DYNAMIC_UIDS = [61_184, 65_519] as const;

/** Returns why the unit cannot start on this host yet, from the user of the name `claviger`; undefined if it can. */
export function warnOfUser(user: { readonly uid: number } | undefined): string | undefined {
  const create = "create it with the line that `claviger systemd --sysusers` prints";
  if (user === undefined)
    return `The user claviger is missing on this host: before you start this unit, ${create}; see \`claviger guide service\``;
  if (user.uid < DYNAMIC_UIDS[0] || user.uid > DYNAMIC_UIDS[1]) return undefined;
  return `The user claviger exists only while the unit with DynamicUser runs: stop that unit first, then ${create}; see \`claviger guide systemd\``;
}
