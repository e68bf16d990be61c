/**
 * Tells of a unit with settings in `Environment=`, as versions before 0.5 printed it. Commands do not read them: every
 * setting has its place in the settings file, and systemd tells the unit's to every user.
 *
 * A command that lacks a setting that says which installation the service has would work on another one. So it is
 * refused. All other settings are a warning of `config check` and a finding of `doctor`.
 */
import { resolve } from "node:path";
import {
  type Config,
  type ConfigSource,
  createLookup,
  DEFAULT_ENV_FILE,
  type UnitSettings,
} from "../installation/config/mod.ts";
import { type CheckResult, fail, warn } from "../installation/doctor/mod.ts";

interface OldUnit {
  /** The settings of each unit, as the beginning of a sentence. */
  readonly what: string;
  readonly remedy: string;
  /** Whether a command would work on another installation than the service. */
  readonly isOther: boolean;
}

/** The settings that say which installation the service has, and whether a command without the setting has the same. */
const OF_INSTALLATION: Readonly<Record<string, (value: string, config: Config) => boolean>> = {
  CLAVIGER_DATA_DIR: (value, { dataDir }) => resolve("/", value) === dataDir,
  DATABASE_URL: () => false,
  CLAVIGER_MODELS_DIR: () => false,
  CLAVIGER_MODELS_S3: () => false,
  // The unit may pass the secret on by `LoadCredential=`, too, which commands read.
  CLAVIGER_SECRET: (_, { secret }) => secret !== undefined,
  CLAVIGER_SECRET_FILE: (_, { secret }) => secret !== undefined,
};

/** Finds the settings in `Environment=` of the service's units; undefined if there are none. */
export function findOldUnit(source: ConfigSource, config: Config): OldUnit | undefined {
  const units = [source.unit, ...(source.unit?.siblings ?? [])].filter(hasOldSettings);
  if (units.length === 0) return undefined;
  const find = createLookup(source);
  const isOther = units
    .flatMap(({ oldSettings }) => [...oldSettings])
    .some(
      ([name, value]) => find(name).source === "default" && OF_INSTALLATION[name]?.(value, config) === false,
    );
  const each = units.map(({ name, oldSettings }) => `${name} has ${[...oldSettings.keys()].join(", ")}`);
  const moves = units.map((unit) => `those of ${unit.name} into ${fileOf(unit)}`);
  const shown = `the values that \`systemctl cat ${units.map(({ name }) => name).join(" ")}\` shows`;
  return {
    what: `${each.join(", and ")} in Environment=, which commands do not read`,
    remedy: `put ${moves.join(" and ")}, with ${shown}, then print the unit again (\`claviger guide systemd\`)`,
    isOther,
  };
}

/** Returns the sentence that refuses a command that would work on another installation than the service. */
export function refuseOldUnit(source: ConfigSource, config: Config): string | undefined {
  const unit = findOldUnit(source, config);
  if (!unit?.isOther) return undefined;
  return `Cannot work on another installation than the service: ${unit.what}; nothing was changed; ${unit.remedy}`;
}

/** Returns the finding of a unit with settings in `Environment=`; undefined for any other unit. */
export function examineOldUnit(source: ConfigSource, config: Config): CheckResult | undefined {
  const unit = findOldUnit(source, config);
  if (unit === undefined) return undefined;
  return unit.isOther
    ? fail(`commands would work on another installation than the service: ${unit.what}`, unit.remedy)
    : warn(unit.what, unit.remedy);
}

function hasOldSettings(unit: UnitSettings | undefined): unit is UnitSettings {
  return unit !== undefined && unit.oldSettings.size > 0;
}

/** Returns the settings file of a unit. The last file of a service of the template is its own. */
function fileOf({ name, envFiles }: UnitSettings): string {
  return envFiles.at(name.includes("@") ? -1 : 0) ?? DEFAULT_ENV_FILE;
}
