/** @jsxImportSource hono/jsx */
/** The page of a token: what it may do, and its revocation. */
import { limitsOfToken, listTokens, meaningOf } from "../../operators/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import type { Attempt } from "../frame/console/attempt.ts";
import { Action, Actions, Done } from "../frame/console/components/action.tsx";
import { Heading, Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago, Foreign } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { TokenState } from "./lists.tsx";

const DONE = { revoke: "The token is revoked: it is refused from now on." } as const;

/** Shows a token. After a refused change, its form is open and says why. */
export async function tokenPage(visit: Visit, attempt?: Attempt): Promise<Page | Refusal> {
  const { options, params, query, now } = visit;
  const tokens = await listTokens(options.database, { now });
  const token = tokens.find(({ name }) => name === params.name);
  if (token === undefined) return refuse("NOT_FOUND", "No token has this name");
  const { name, state, createdBy, createdAt, renewedAt, expiresAt, lastUsedAt } = token;
  const limits = limitsOfToken(token);
  const meaning = meaningOf(token.restriction);
  return {
    title: `Token ${name}`,
    ...(attempt && { code: attempt.code }),
    body: (
      <>
        <Heading title={`Token ${name}`}>
          <TokenState state={state} />
        </Heading>
        <Done query={query} sentences={DONE} />
        {state === "disabled" && (
          <Notice kind="warning">
            A restore disabled this token. On the host, <code>{`claviger tokens resume ${name}`}</code> lets
            it in again.
          </Notice>
        )}
        {state === "revoked" ? (
          attempt && <Notice kind="bad">{attempt.sentence}.</Notice>
        ) : (
          <Actions>
            <Action
              name="revoke"
              label="Revoke"
              path={`/console/access/tokens/${name}`}
              submit="Revoke the token"
              attempt={attempt}
              isFinal
              repeat={{ what: "the name", text: name }}
            >
              <p>The token is refused from the next request on, and never works again.</p>
            </Action>
          </Actions>
        )}
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
