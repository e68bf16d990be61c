import { type Config, refuseAdminListener } from "../config/mod.ts";
import { isAdminTls, originOf, toReachedHost } from "../endpoints.ts";
import type { ServingAt } from "../installation/mod.ts";
import { ask } from "./ask_health.ts";
import { type Finding, fail, ok, skipUnseen, warn } from "./finding.ts";

const NAME = "operators";
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
}): Promise<Finding> {
  const { adminListen, adminUrl } = config;
  const unsafe = refuseAdminListener(config);
  if (unsafe !== undefined)
    return skipUnseen(NAME, config) ?? fail(NAME, unsafe.sentence, `correct the settings, then ${RESTART}`);
  const at = serving === undefined ? adminListen : serving.admin;
  if (at === undefined) {
    return adminListen === undefined
      ? ok(NAME, "not served: CLAVIGER_ADMIN_LISTEN is not set")
      : warn(NAME, "not served: CLAVIGER_ADMIN_LISTEN was set after the service had started", RESTART);
  }
  const isTls = isAdminTls(at, { adminUrl, tls: (serving ?? config).tls });
  const origin = originOf({ host: toReachedHost(at.host), port: at.port }, isTls);
  if (serving === undefined) return ok(NAME, `to be served at ${origin} while the service runs`);
  const answer = await ask(new URL(origin), { timeoutMs: LIMIT_MS, trustAny: true });
  if ("error" in answer) return fail(NAME, `no service answers at ${origin}: ${answer.error}`, RESTART);
  if (!OWN_STATUSES.includes(answer.httpStatus)) {
    return fail(NAME, `another program answers at ${origin}, not Claviger (${answer.httpStatus})`, RESTART);
  }
  return ok(NAME, `served at ${origin}${adminUrl === undefined ? "" : `, as ${adminUrl}`}`);
}
