import type { Clock } from "../../base/clock.ts";
import { silentLog } from "../../base/log.ts";
import { isRefusal } from "../../base/refusal.ts";
import { openProvider } from "../../operators/identity/mod.ts";
import type { Config } from "../config/mod.ts";
import { type CheckResult, fail, ok, requireReadable, skipUnseen, warn } from "./finding.ts";

/** Asks the identity provider for its endpoints, and says which addresses must be entered there. */
export async function examineProvider({
  config,
  clock,
}: {
  readonly config: Config;
  readonly clock: Clock;
}): Promise<CheckResult> {
  const settings = config.provider;
  if (settings === undefined) return ok("by links of commands alone");
  if (settings.secretFile === undefined)
    return skipUnseen(config) ?? fail("the secret of the client is missing", "see `claviger guide login`");
  requireReadable(settings.secretFile);
  const provider = openProvider(settings, { clock, log: silentLog });
  if (isRefusal(provider)) return fail(provider.sentence, "correct the file, see `claviger guide login`");
  const answer = await provider.examine();
  if (isRefusal(answer)) return warn(answer.sentence, "see `claviger guide login` for this message");
  if (config.adminListen === undefined)
    return warn(`${provider.name} answers, but nobody can log in`, "set CLAVIGER_ADMIN_LISTEN");
  const after = answer.hasLogout ? `, and ${provider.afterLogout} after the logout` : "";
  const asks = `a login asks for the scopes ${answer.scopes}, and reads the claim ${answer.groupsClaim}`;
  return ok(
    `${provider.name} answers; it must allow ${provider.redirectUri}${after}; ${asks}; only a login tries the client's id and secret`,
  );
}
