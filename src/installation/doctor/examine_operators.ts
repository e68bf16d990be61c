import { isAdminTls, originOf, toReachedHost } from "../../base/listener_url.ts";
import { type Config, refuseAdminListener } from "../config/mod.ts";
import type { ServingAt } from "../mod.ts";
import { ask } from "./ask_health.ts";
import { type CheckResult, fail, ok, skipUnseen, warn } from "./finding.ts";

const LIMIT_MS = 6_000;
const RESTART = "`systemctl restart claviger`";
/** The answers of our own listener to `/`: the way to the console, and the refusal of a `Host` that is not its own. */
const OWN_STATUSES = [303, 421];

/** Examines the listener for operators: whether its settings are safe, and whether it answers. */
export async function examineOperators({
  config,
  serving,
}: {
  readonly config: Config;
  readonly serving?: ServingAt | undefined;
}): Promise<CheckResult> {
  const { adminListen, adminUrl } = config;
  const unsafe = refuseAdminListener(config);
  if (unsafe !== undefined)
    return skipUnseen(config) ?? fail(unsafe.sentence, `correct the settings, then ${RESTART}`);
  const at = serving === undefined ? adminListen : serving.admin;
  if (at === undefined) {
    return adminListen === undefined
      ? ok("not served: CLAVIGER_ADMIN_LISTEN is not set")
      : warn("not served: CLAVIGER_ADMIN_LISTEN was set after the service had started", RESTART);
  }
  const isTls = isAdminTls(at, { adminUrl, tls: (serving ?? config).tls });
  const origin = originOf({ host: toReachedHost(at.host), port: at.port }, isTls);
  if (serving === undefined) return ok(`to be served at ${origin} while the service runs`);
  const answer = await ask(new URL(origin), { timeoutMs: LIMIT_MS, trustAny: true });
  if ("error" in answer) return fail(`no service answers at ${origin}: ${answer.error}`, RESTART);
  if (!OWN_STATUSES.includes(answer.httpStatus)) {
    return fail(`another program answers at ${origin}, not Claviger (${answer.httpStatus})`, RESTART);
  }
  return ok(`served at ${origin}${adminUrl === undefined ? "" : `, as ${adminUrl}`}`);
}
