/**
 * The settings: the name, meaning and allowed values of each setting, and the code that reads all of them from
 * flags, the environment and the settings files.
 */
export { refuseAdminListener } from "./admin_listener.ts";
export {
  type Config,
  type ConfigSource,
  createLookup,
  type Flags,
  type FoundSetting,
  type GitHubAppSettings,
  type GivenSecret,
  type PackedConfig,
  packConfig,
  readConfig,
  type UnitSettings,
  type Unseen,
  unpackConfig,
} from "./config.ts";
export { findNearest } from "./find_nearest.ts";
export { demand, SettingError, settingOf, unknown, wrong } from "./setting_error.ts";
export { type Get, type ListenAddress, readHost, readListenAddress, readPort } from "./setting_values.ts";
export { findSetting, isSetting, SETTINGS, type Setting } from "./settings.ts";
export {
  DEFAULT_ENV_FILE,
  readBounded,
  readNamed,
  readSettingsFile,
  settingsFilesOf,
} from "./settings_file.ts";
