/** @jsxImportSource hono/jsx */
/** The page of a token: what it may do, and its revocation. */
import { type ListedToken, limitsOfToken, listTokens, meaningOf, revokeToken } from "../../operators/mod.ts";
import { refuse } from "../../refusal.ts";
import { type Action, action } from "../frame/console/action.ts";
import { Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago, Foreign } from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { TokenState } from "./lists.tsx";

const revoke: Action<ListedToken> = action({
  name: "revoke",
  scope: "admin",
  label: "Revoke",
  submit: "Revoke the token",
  isFinal: true,
  fits: ({ state }) => state !== "revoked",
  repeat: { what: "the name", textOf: ({ name }) => name },
  Form: () => <p>The token is refused from the next request on, and never works again.</p>,
  perform: ({ of: { name }, by, visit }) => revokeToken(visit.options.database, name, by),
  done: { "token.revoke": "The token is revoked: it is refused from now on." },
});

/** The page of a token, with its action. */
export const TOKEN_PAGE: DetailPage<ListedToken> = {
  path: "/access/tokens/:name",
  scope: "admin",
  addressOf: ({ name }) => `/access/tokens/${name}`,
  actions: [revoke],
  async find({ options, params, now }) {
    const tokens = await listTokens(options.database, { now });
    return tokens.find(({ name }) => name === params.name) ?? UNKNOWN;
  },
  show: showToken,
};

const UNKNOWN = refuse("NOT_FOUND", "No token has this name");

function showToken(token: ListedToken, { now }: Visit): Detail {
  const { name, state, createdBy, createdAt, renewedAt, expiresAt, lastUsedAt } = token;
  const limits = limitsOfToken(token);
  const meaning = meaningOf(token.restriction);
  return {
    title: `Token ${name}`,
    beside: <TokenState state={state} />,
    above: state === "disabled" && (
      <Notice kind="warning">
        A restore disabled this token. On the host, <code>{`claviger tokens resume ${name}`}</code> lets it in
        again.
      </Notice>
    ),
    below: (
      <>
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
