import { type Config, refuseAdminListener } from "../config/mod.ts";
import { originOf, toReachedHost } from "../endpoints.ts";
import type { ServingAt } from "../installation/mod.ts";
import { ask } from "./ask_health.ts";
import { type Finding, fail, ok, skipUnseen, warn } from "./finding.ts";

const name = "operators";
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
    return skipUnseen(name, config) ?? fail(name, unsafe.sentence, `correct the settings, then ${RESTART}`);
  const at = serving === undefined ? adminListen : serving.admin;
  if (at === undefined) {
    return adminListen === undefined
      ? ok(name, "not served: CLAVIGER_ADMIN_LISTEN is not set")
      : warn(name, "not served: CLAVIGER_ADMIN_LISTEN was set after the service had started", RESTART);
  }
  const { tls } = serving ?? config;
  const origin = originOf({ host: toReachedHost(at.host), port: at.port }, tls !== undefined);
  if (serving === undefined) return ok(name, `to be served at ${origin} while the service runs`);
  const answer = await ask(new URL(origin), { timeoutMs: LIMIT_MS, trustAny: true });
  if ("error" in answer) return fail(name, `no service answers at ${origin}: ${answer.error}`, RESTART);
  if (!OWN_STATUSES.includes(answer.httpStatus)) {
    return fail(name, `another program answers at ${origin}, not Claviger (${answer.httpStatus})`, RESTART);
  }
  return ok(name, `served at ${origin}${adminUrl === undefined ? "" : `, as ${adminUrl}`}`);
}
