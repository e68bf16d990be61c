import type { Context } from "hono";
import { endSession } from "../../operators/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import { logOut } from "../frame/console/log_in.ts";
import { showDone } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";

/** Ends a session. Only an admin may end the session of another operator; ending one's own session is a logout. */
export async function endSessionOfForm(visit: Visit, c: Context<AdminEnv>): Promise<Response | Refusal> {
  const { options, session, actor, now, params } = visit;
  const id = params.id ?? "";
  if (id === session.id) return await logOut(visit, c);
  const isAdmin = session.role === "admin";
  const operator = isAdmin ? undefined : session.operator;
  const isEnded = await endSession(options.database, id, { actor, now, operator });
  // An admin sees all sessions. If this one had ended already, the result is the same.
  if (isEnded || isAdmin) return showDone(c, "/access", "session");
  return refuse("NOT_FOUND", "Cannot end session: you have no session with this id, or it has ended already");
}
