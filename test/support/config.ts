import { type Config, type ConfigSource, readConfig } from "../../src/installation/config/mod.ts";
import { orThrow } from "./issue.ts";

/** Returns the configuration of an ordinary user with these variables. No file of this machine is read. */
export function configOf(env: ConfigSource["env"], more: Partial<ConfigSource> = {}): Config {
  return orThrow(readConfig({ env, envFile: "/dev/null", workingFolder: "/", isRoot: false, ...more }));
}
