/** The changes of the page Access: roles, sessions and tokens. */
import type { Context } from "hono";
import * as v from "valibot";
import { endSession, isName, ROLES, removeOperator, revokeToken, setRole } from "../../operators/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import type { AdminEnv } from "../options.ts";
import { parseForm, REASON_ENTRY, repeatEntry, TEXT, toAttempt } from "./attempt.ts";
import { logOut } from "./log_in.ts";
import type { Page } from "./page.tsx";
import { operatorPage } from "./pages/operator.tsx";
import { tokenPage } from "./pages/token.tsx";
import type { Visit } from "./visit.ts";

type Answer = Promise<Page | Response | Refusal>;

/** Ends a session. Only an admin may end the session of another operator; ending the own session is a logout. */
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
  const entries = { role: v.pipe(TEXT, v.picklist(ROLES, "It must be a role")), ...REASON_ENTRY };
  return await change(visit, { action: "role", entries, show: operatorPage }, async (name, fields, by) => {
    const changed = await setRole(visit.options.database, { name, role: fields.role }, by);
    if (isRefusal(changed)) return changed;
    // Who is no admin any more may not open the page of an operator.
    const isOwn = name === visit.session.operator;
    return c.redirect(
      isOwn ? "/console/access?done=role" : `/console/access/operators/${name}?done=role`,
      303,
    );
  });
}

/** Removes an operator for good. */
export async function removeOperatorOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const entries = { ...repeatEntry(visit.params.name ?? ""), ...REASON_ENTRY };
  return await change(visit, { action: "remove", entries, show: operatorPage }, async (name, _, by) => {
    const removed = await removeOperator(visit.options.database, name, by);
    return isRefusal(removed) ? removed : c.redirect(`/console/access/operators/${name}?done=remove`, 303);
  });
}

/** Revokes a token for good. */
export async function revokeTokenOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const entries = { ...repeatEntry(visit.params.name ?? ""), ...REASON_ENTRY };
  return await change(visit, { action: "revoke", entries, show: tokenPage }, async (name, _, by) => {
    const revoked = await revokeToken(visit.options.database, name, by);
    return isRefusal(revoked) ? revoked : c.redirect(`/console/access/tokens/${name}?done=revoke`, 303);
  });
}

interface Form<Entries extends v.ObjectEntries> {
  readonly action: string;
  readonly entries: Entries;
  /** The page that shows the form again after a refusal. */
  readonly show: typeof operatorPage | typeof tokenPage;
}

async function change<Entries extends v.ObjectEntries & typeof REASON_ENTRY>(
  visit: Visit,
  { action, entries, show }: Form<Entries>,
  perform: (
    name: string,
    fields: v.InferOutput<v.ObjectSchema<Entries, undefined>>,
    by: Parameters<typeof setRole>[2],
  ) => Promise<Response | Refusal>,
): Answer {
  const { params, form, actor, now } = visit;
  const name = params.name ?? "";
  const fields = isName(name) ? parseForm(entries, form) : refuse("NOT_FOUND", "Nothing has this name");
  if (isRefusal(fields)) return await show(visit, toAttempt(action, form, fields));
  const { reason } = parseForm(REASON_ENTRY, form) as { readonly reason?: string };
  const done = await perform(name, fields, { actor: { ...actor, reason }, now });
  return isRefusal(done) ? await show(visit, toAttempt(action, form, done)) : done;
}
