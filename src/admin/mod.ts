/**
 * The listener for operators: `/admin/v1` for programs with a token, `/console` for people with a session. Read
 * `app.ts` first. This is no hot path, so it is ordinary Hono with middleware.
 */

export type { AdminAppOptions } from "./frame/options.ts";
export { listenForOperators } from "./listen_for_operators.ts";
