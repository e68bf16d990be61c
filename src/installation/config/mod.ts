/**
 * The settings: the name, meaning and allowed values of each setting, and the code that reads all of them from
 * flags, the environment and the settings files.
 */
export { refuseAdminListener, refuseSameAddress } from "./admin_listener.ts";
export { type Config, readConfig } from "./config.ts";
export {
  type ConfigSource,
  createLookup,
  type FoundSetting,
  type UnitSettings,
  type Unseen,
} from "./config_source.ts";
export type { GivenSecret } from "./credentials.ts";
export { findNearest } from "./find_nearest.ts";
export { findSetting, parseSetting, settingOf } from "./find_setting.ts";
export type { ListenAddress } from "./setting_rules.ts";
export { SETTINGS, type SettingName } from "./settings.ts";
export { DEFAULT_ENV_FILE } from "./settings_file.ts";
