/** @jsxImportSource hono/jsx */
/** The page of a token: what it may do, and its renewal, resumption and revocation. */
import * as v from "valibot";
import { DAY_AS_END, toTimestamp } from "../../base/calendar.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import {
  type ListedToken,
  limitsOfToken,
  listTokens,
  meaningOf,
  renewToken,
  resumeToken,
  revokeToken,
} from "../../operators/mod.ts";
import { EXPIRY_FIELD } from "../frame/api/fields.ts";
import { type Action, action } from "../frame/console/action.ts";
import { askForShorten, SHORTEN_ENTRY, ShortenField } from "../frame/console/components/end.tsx";
import { TextField } from "../frame/console/components/form.tsx";
import { Notice, Secret } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago, Foreign } from "../frame/console/components/values.tsx";
import { type Detail, type DetailPage, openPage } from "../frame/console/detail_page.tsx";
import { TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { SHOWN } from "../frame/console/last_change.tsx";
import { toOpenForm } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import { StateOfToken } from "./lists.tsx";

const renew: Action<ListedToken> = action({
  name: "renew",
  scope: "admin",
  label: "Renew",
  submit: "Renew the token",
  needsFreshProof: true,
  fits: ({ state }) => state !== "revoked",
  Form: ({ of: { expiresAt }, field }) => (
    <>
      <p>The program gets a new text of the token, which is shown once. The old text is refused at once.</p>
      <TextField
        {...field("expires_at")}
        label="Expires (optional)"
        hint={`A day, a time such as 2027-01-31T12:00:00Z, or never; ${DAY_AS_END}; empty: as before.`}
      />
      <p>{`Now it expires ${expiresAt ? `at ${toTimestamp(expiresAt)}` : "never"}.`}</p>
      <ShortenField field={field} />
    </>
  ),
  entries: { expires_at: v.pipe(TEXT_OR_NOTHING, v.optional(EXPIRY_FIELD)), ...SHORTEN_ENTRY },
  async perform({ of: { name }, fields: { expires_at: expiresAt, shorten }, by, visit }) {
    const { database, brand } = visit.options;
    const change = { name, expiresAt, shorten };
    return showOnce(askForShorten(await renewToken(database, change, { ...by, brand })), name, visit);
  },
});

const resume: Action<ListedToken> = action({
  name: "resume",
  scope: "admin",
  label: "Resume",
  submit: "Resume the token",
  needsFreshProof: true,
  fits: ({ state }) => state === "disabled",
  Form: () => <p>It is accepted again as it was in the backup: renew it first if it was stolen meanwhile.</p>,
  perform: ({ of: { name }, by, visit }) => resumeToken(visit.options.database, name, by),
  done: { "token.resume": "The token is resumed." },
});

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

export const TOKEN_PAGE: DetailPage<ListedToken> = {
  path: "/access/tokens/:name",
  scope: "admin",
  addressOf: ({ name }) => `/access/tokens/${name}`,
  actions: [renew, resume, revoke],
  async find({ options, params, now }) {
    const tokens = await listTokens(options.database, { now });
    return tokens.find(({ name }) => name === params.name) ?? UNKNOWN;
  },
  show: showToken,
};

const UNKNOWN = refuse("NOT_FOUND", "No token has this name");

/** Shows the page of a token that was issued or renewed, with its text. No other page shows the text. */
export async function showOnce(made: { readonly token: string } | Refusal, name: string, visit: Visit) {
  if (isRefusal(made)) return made;
  const next = `/console/access/tokens/${name}?done=${SHOWN}`;
  const api = `${visit.origin}/admin/v1`;
  const done = (
    <>
      <Secret what="token" text={made.token} next={next} />
      <p>
        The API is at <code>{api}</code>. To try the token:{" "}
        <code>{`curl -H "Authorization: Bearer $TOKEN" ${api}/whoami`}</code>
      </p>
    </>
  );
  return await openPage(TOKEN_PAGE, { ...visit, params: { name } }, { done });
}

function showToken(token: ListedToken, { now }: Visit): Detail {
  const { name, state, createdBy, createdAt, renewedAt, expiresAt, lastUsedAt } = token;
  const limits = limitsOfToken(token);
  const meaning = meaningOf(token.restriction);
  return {
    title: `Token ${name}`,
    // A second renewal would refuse the text that the first one shows.
    script: ["submit_once", "issued"],
    beside: <StateOfToken state={state} />,
    above: state === "disabled" && (
      <Notice kind="warning">
        A restore disabled this token.{" "}
        <a href={`/console${toOpenForm(TOKEN_PAGE.addressOf(token), "resume")}`}>Resume it</a> if you trust
        it.
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
