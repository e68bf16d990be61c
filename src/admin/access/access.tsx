/** @jsxImportSource hono/jsx */
/** Who may use the console and the API. Only admins see other operators and tokens. */
import type { Context } from "hono";
import { type Refusal, refuse } from "../../base/refusal.ts";
import {
  endSession,
  listOperators,
  listSessions,
  listTokens,
  ROLE_MEANINGS,
  ROLES,
} from "../../operators/mod.ts";
import { Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import { logOut } from "../frame/console/log_in.ts";
import { showDone } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";
import { issue } from "./issue_token.tsx";
import { FirstRows, operatorColumns, Sessions, Tokens } from "./lists.tsx";

export const ACCESS_PAGE: DetailPage<object> = {
  path: "/access",
  scope: "any",
  addressOf: () => "/access",
  actions: [issue],
  find: async () => ({}),
  show: showAccess,
};

/** Shows one's own sessions; to an admin also all other sessions, operators and tokens. */
async function showAccess(_: object, { options, session, query, now }: Visit): Promise<Detail> {
  const { database, provider } = options;
  const isAdmin = session.role === "admin";
  const [sessions, operators, tokens] = await Promise.all([
    listSessions(database, { now }),
    isAdmin ? listOperators(database) : [],
    isAdmin ? listTokens(database, { now }) : [],
  ]);
  const seen = sessions.filter(({ operator }) => isAdmin || operator === session.operator);
  const ordered = operators.toSorted((a, b) => Number(a.removedAt !== null) - Number(b.removedAt !== null));
  return {
    title: "Access",
    script: "submit_once",
    above: query.get("done") === "session" && <Notice kind="done">The session has ended.</Notice>,
    below: (
      <>
        <h2>{isAdmin ? "Sessions" : "Your sessions"}</h2>
        <Sessions sessions={seen} ownId={session.id} now={now} />
        <h2>Roles</h2>
        <Facts facts={ROLES.map((role) => [role, `${ROLE_MEANINGS[role]}.`])} />
        {isAdmin && (
          <>
            <h2>Operators</h2>
            <FirstRows
              caption="Operators by name; removed operators last"
              columns={operatorColumns(now)}
              rows={ordered}
              command="claviger operators list"
            />
            <p class="muted">
              {provider && `People log in with ${provider.name}: the first login creates the operator. `}
              On the host, <code>claviger operators login NAME --role ROLE</code> creates an operator and
              prints a link.
            </p>
            <h2>Tokens</h2>
            <Tokens tokens={tokens} now={now} />
          </>
        )}
      </>
    ),
  };
}

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
