/** `claviger config check`: reads every setting and file as the service would, and shows what holds. */
import type { Command } from "commander";
import type { Config, ConfigSource } from "../config.ts";
import { openSecrets } from "../installation.ts";
import { openGitHubApp } from "../installer/mod.ts";
import { isRefusal } from "../refusal.ts";
import { readTlsIdentity, tlsWarning } from "../tls.ts";
import { explainConfig } from "./explain_config.ts";
import { type PlaceOptions, withJson, withPlace } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { orRefuse, readSettings } from "./run.ts";
import type { Surroundings } from "./surroundings.ts";

interface CheckOptions extends PlaceOptions {
  readonly json: boolean;
}

export function addConfigCommand(program: Command, surroundings: Surroundings): void {
  const config = program.command("config").description("the settings");
  withPlace(withJson(config.command("check")))
    .description("read all settings and the files they name, and show what holds and why")
    .action((options: CheckOptions) => check(surroundings, options));
}

async function check(surroundings: Surroundings, options: CheckOptions): Promise<void> {
  const source: ConfigSource = {
    ...surroundings,
    envFile: options.envFile,
    flags: { CLAVIGER_DATA_DIR: options.dataDir },
  };
  const config = readSettings(surroundings, options);
  const settings = orRefuse(explainConfig(source));
  const warnings = checkFiles(config, surroundings);
  if (options.json) printJson(surroundings, { settings, warnings });
  else {
    printTable(
      surroundings,
      settings.map(({ name, value, source: from }) => ({ name, value, source: from })),
    );
    for (const warning of warnings) surroundings.err(`claviger: ${warning}\n`);
  }
}

/** Reads what the settings name; refuses what a service would refuse. Opens no database. */
function checkFiles(config: Config, { clock }: Surroundings): string[] {
  const warnings: string[] = [];
  if (config.secret !== undefined) orRefuse(openSecrets(config, { create: false }));
  else if (config.databaseUrl !== undefined) orRefuse(openSecrets(config, { create: false }));
  if (config.gitHubApp !== undefined) {
    const app = openGitHubApp(config.gitHubApp);
    orRefuse(isRefusal(app) ? app : {});
  }
  if (config.tls !== undefined) {
    const warning = tlsWarning(orRefuse(readTlsIdentity(config.tls)), clock.now());
    if (warning !== undefined) warnings.push(warning);
  }
  return warnings;
}
