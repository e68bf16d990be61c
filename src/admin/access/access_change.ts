/** The changes of the page Access: roles, sessions and tokens. */
import type { Context } from "hono";
import * as v from "valibot";
import { endSession, isName, ROLES, removeOperator, revokeToken, setRole } from "../../operators/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import { answerChange, type Change } from "../frame/console/answer_change.ts";
import { repeatEntry, TEXT } from "../frame/console/attempt.ts";
import { logOut } from "../frame/console/log_in.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";
import { operatorPage } from "./operator.tsx";
import { tokenPage } from "./token.tsx";

type Answer = Promise<Page | Response | Refusal>;

/** Ends a session. Only an admin may end the session of another operator; ending one's own session is a logout. */
export async function endSessionOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const { options, session, actor, now, params } = visit;
  const id = params.id ?? "";
  if (id === session.id) return await logOut(visit, c);
  const isAdmin = session.role === "admin";
  const operator = isAdmin ? undefined : session.operator;
  const isEnded = await endSession(options.database, id, { actor, now, operator });
  // An admin sees all sessions. If this one had ended already, the result is the same.
  if (isEnded || isAdmin) return c.redirect("/console/access?done=session", 303);
  return refuse("NOT_FOUND", "Cannot end session: you have no session with this id, or it has ended already");
}

/** Gives an operator another role. */
export async function setRoleOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const { name, path } = operatorOf(visit);
  return await changeNamed(visit, c, {
    action: "role",
    entries: { role: v.pipe(TEXT, v.picklist(ROLES, "It must be a role")) },
    // An operator who is no admin any more may not open the page of an operator.
    path: name === visit.session.operator ? "/console/access" : path,
    show: operatorPage,
    perform: ({ role }, by) => setRole(visit.options.database, { name, role }, by),
  });
}

/** Removes an operator for good. */
export async function removeOperatorOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const { name, path } = operatorOf(visit);
  return await changeNamed(visit, c, {
    action: "remove",
    entries: repeatEntry(name),
    path,
    show: operatorPage,
    perform: (_, by) => removeOperator(visit.options.database, name, by),
  });
}

/** Revokes a token for good. */
export async function revokeTokenOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const { name = "" } = visit.params;
  return await changeNamed(visit, c, {
    action: "revoke",
    entries: repeatEntry(name),
    path: `/console/access/tokens/${name}`,
    show: tokenPage,
    perform: (_, by) => revokeToken(visit.options.database, name, by),
  });
}

function operatorOf({ params: { name = "" } }: Visit) {
  return { name, path: `/console/access/operators/${name}` };
}

/** Answers the form of an operator or a token. The page says that there is none with a name that cannot exist. */
async function changeNamed<Entries extends v.ObjectEntries>(
  visit: Visit,
  c: Context<AdminEnv>,
  change: Change<Entries>,
): Answer {
  return isName(visit.params.name ?? "") ? await answerChange(visit, c, change) : await change.show(visit);
}
