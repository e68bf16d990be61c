/** @jsxImportSource hono/jsx */
/** The page of a token: what it may do, and its revocation. */
import {
  isName,
  type ListedToken,
  limitsOfToken,
  listTokens,
  meaningOf,
  revokeToken,
} from "../../operators/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import { type Action, type ActionPage, action } from "../frame/console/action.ts";
import { Actions, LastAction } from "../frame/console/components/action.tsx";
import { Heading, Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago, Foreign } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { RefusedForm } from "../frame/console/refused_form.ts";
import type { Visit } from "../frame/console/visit.ts";
import { TokenState } from "./lists.tsx";

interface NamedToken {
  readonly name: string;
}

const revoke: Action<NamedToken, ListedToken> = action({
  name: "revoke",
  scope: "admin",
  label: "Revoke",
  submit: "Revoke the token",
  isFinal: true,
  fits: ({ state }) => state !== "revoked",
  repeat: { what: "the name", textOf: ({ name }) => name },
  Form: () => <p>The token is refused from the next request on, and never works again.</p>,
  entries: {},
  perform: ({ of: { name }, by, visit }) => revokeToken(visit.options.database, name, by),
  done: "The token is revoked: it is refused from now on.",
});

const UNKNOWN = refuse("NOT_FOUND", "No token has this name");

/** The page of a token, with its action. */
export const TOKEN_PAGE: ActionPage<NamedToken, ListedToken> = {
  path: "/access/tokens/:name",
  addressOf: ({ name }) => `/access/tokens/${name}`,
  actions: [revoke],
  find: ({ params: { name = "" } }) => (isName(name) ? { name } : UNKNOWN),
  show: tokenPage,
};

/** Shows a token. After a form was refused, it is open and says why. */
async function tokenPage(named: NamedToken, visit: Visit, refused?: RefusedForm): Promise<Page | Refusal> {
  const { options, now } = visit;
  const tokens = await listTokens(options.database, { now });
  const token = tokens.find((each) => each.name === named.name);
  if (token === undefined) return UNKNOWN;
  const { name, state, createdBy, createdAt, renewedAt, expiresAt, lastUsedAt } = token;
  const limits = limitsOfToken(token);
  const meaning = meaningOf(token.restriction);
  const shown = { page: TOKEN_PAGE, of: token, visit, refused };
  return {
    title: `Token ${name}`,
    body: (
      <>
        <Heading title={`Token ${name}`}>
          <TokenState state={state} />
        </Heading>
        <LastAction {...shown} />
        {state === "disabled" && (
          <Notice kind="warning">
            A restore disabled this token. On the host, <code>{`claviger tokens resume ${name}`}</code> lets
            it in again.
          </Notice>
        )}
        <Actions {...shown} />
        {meaning && <p class="hint">{meaning}.</p>}
        <Facts
          facts={[
            ["Scopes", limits.scopes],
            ["Tiers", limits.tiers],
            ["Mode", limits.mode],
            ["From", limits.from],
            ["Created by", <Foreign text={createdBy} />],
            ["Created", <Ago at={createdAt} now={now} />],
            ["Renewed", renewedAt > createdAt ? <Ago at={renewedAt} now={now} /> : "never"],
            ["Expires", expiresAt ? <Ago at={expiresAt} now={now} /> : "never"],
            ["Last used", lastUsedAt ? <Ago at={lastUsedAt} now={now} /> : "never"],
            ["Changes made", <a href={`/console/audit?actor=token%3A${name}`}>Show in the audit log</a>],
          ]}
        />
      </>
    ),
  };
}
