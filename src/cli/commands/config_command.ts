/** `claviger config check`: reads every setting and file as the service would, and shows the settings in force. */

import { silentLog } from "../../base/log.ts";
import { isReadable } from "../../base/read_regular_file.ts";
import { isRefusal } from "../../base/refusal.ts";
import { loadCertificate, tlsWarning } from "../../base/tls/mod.ts";
import {
  type Config,
  type ConfigSource,
  readConfig,
  refuseAdminListener,
} from "../../installation/config/mod.ts";
import { openSecrets } from "../../installation/mod.ts";
import { openGitHubApp } from "../../models/repository_token/mod.ts";
import { openProvider } from "../../operators/identity/mod.ts";
import { command, group } from "../command.ts";
import { explainConfig } from "../explain_config.ts";
import type { Invocation } from "../invocation.ts";
import { findOldUnit, refuseOldUnit } from "../old_unit.ts";
import { JSON_OPTIONS } from "../options.ts";
import { CommandRefused, orRefuse, PersonNeeded, sourceOf } from "../run.ts";

const check = command({
  name: "check",
  description:
    "read all settings and the files that they name, and show each setting and where it comes from",
  options: JSON_OPTIONS,
  run({ json, ...place }, { invocation, print }) {
    const source = sourceOf(invocation, place);
    const config = readConfig(source);
    // The settings are shown even if one is wrong: the others help to correct it.
    const settings = orRefuse(explainConfig(source));
    const { warnings, error, Refused } = isRefusal(config)
      ? { warnings: [], error: config.sentence, Refused: CommandRefused }
      : checkAll(config, source, invocation);
    if (json) print.document({ settings, warnings, error });
    else print.table(settings.map(({ name, value, source: from }) => ({ name, source: from, value })));
    for (const warning of warnings) print.note(`claviger: ${warning}`);
    if (error !== null) throw new Refused(error);
  },
});

/** Checks the unit, and then the files that the settings name. */
function checkAll(config: Config, source: ConfigSource, invocation: Invocation) {
  const other = refuseOldUnit(source, config);
  if (other !== undefined) return { warnings: [], error: other, Refused: PersonNeeded };
  const { what, remedy } = findOldUnit(source, config) ?? {};
  const { warnings, fault } = checkFiles(config, invocation);
  const ofUnit = what === undefined ? [] : [`${what}: ${remedy}`];
  return { warnings: [...ofUnit, ...warnings], error: fault?.sentence ?? null, Refused: CommandRefused };
}

export const config = group("config", "check the settings", [check]);

/**
 * Reads the files that the settings name. Opens no database. `fault` is the first refusal that a service would give at
 * start; undefined if it would start.
 */
export function checkFiles(config: Config, { clock }: Pick<Invocation, "clock">) {
  const warnings: string[] = [];
  const { unseen } = config;
  if (unseen !== undefined)
    warnings.push(`The service may have other settings: ${unseen.why}; ${unseen.remedy}`);
  if (config.secret !== undefined || config.databaseUrl !== undefined) {
    const secret = openSecrets(config, { create: false });
    if (isRefusal(secret)) return { warnings, fault: secret };
  }
  const unsafe = refuseAdminListener(config);
  if (unsafe !== undefined) return { warnings, fault: unsafe };
  const app = config.gitHubApp && openGitHubApp(config.gitHubApp);
  if (isRefusal(app)) return { warnings, fault: app };
  const provider = config.provider?.secretFile && openProvider(config.provider, { clock, log: silentLog });
  if (isRefusal(provider)) return { warnings, fault: provider };
  const { tls } = config;
  if (tls?.isCopy && ![tls.certFile, tls.keyFile].every(isReadable)) {
    warnings.push(
      "The certificate was not checked: only root may read its files, and systemd passes them on",
    );
    return { warnings };
  }
  const identity = tls && loadCertificate(tls);
  if (isRefusal(identity)) return { warnings, fault: identity };
  const warning = identity && tlsWarning(identity, clock.now());
  if (warning !== undefined) warnings.push(warning);
  return { warnings };
}
