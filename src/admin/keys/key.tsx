/** @jsxImportSource hono/jsx */
/** The page of a key: what it is, why it works or does not, its use and its history, and what an operator can change. */
import type { Context } from "hono";
import { type AuditRow, listAudit } from "../../audit/mod.ts";
import { monthOf } from "../../calendar.ts";
import { parseId } from "../../ids.ts";
import { explainKey, type KeyExplanation } from "../../keys/mod.ts";
import { refuseUnknownKey } from "../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { findUsageByDay } from "../../usage/mod.ts";
import { type Attempt, TEXT, toAttempt } from "../frame/console/attempt.ts";
import { Done } from "../frame/console/components/action.tsx";
import { History } from "../frame/console/components/history.tsx";
import { Heading, Notice } from "../frame/console/components/layout.tsx";
import { State } from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import { MONTH_ENTRY } from "../frame/console/month.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";
import { isOffered, KeyActions } from "./key_actions.tsx";
import { KEY_CHANGES } from "./key_change.ts";
import { KeyFacts, KeyUse, Refusals, type UseOfMonth } from "./key_parts.tsx";
import { Why } from "./key_why.tsx";

const WHAT = "show key";
const HISTORY_ROWS = 20;

const DONE: Readonly<Record<keyof typeof KEY_CHANGES, string>> = {
  suspend: "The key is suspended: it is refused from now on.",
  resume: "The key is resumed: it works again.",
  renew: "The license has its new expiry.",
  tier: "The license has its new tier.",
  limit: "The license has its new monthly limit.",
  "external-id": "The license has its new external id.",
  revoke: "The key is revoked for good.",
};

/** Shows a key. After a refused change, its form is open and says why. */
export async function keyPage(visit: Visit, attempt?: Attempt): Promise<Page | Refusal> {
  const uuid = keyUuidOf(visit);
  if (isRefusal(uuid)) return uuid;
  const { options, now, query } = visit;
  const { database } = options;
  const explanation = await explainKey(database, uuid, { now });
  if (explanation === undefined) return refuseUnknownKey(WHAT, uuid);
  const { values } = readConditions(query, { ...MONTH_ENTRY, done: TEXT, open: TEXT });
  if (isRefusal(values)) return values;
  const { month = monthOf(now.getTime()) } = values;
  const [usage, history] = await Promise.all([
    findUsageByDay(database, parseId("lic", explanation.key.licenseId) ?? "", month),
    listAudit(database, { keyUuid: uuid, limit: HISTORY_ROWS }),
  ]);
  return {
    title: `Key ${explanation.key.hint}`,
    // A second rotation would be refused, and hide the key that the first one shows.
    script: "submit_once",
    ...(attempt && { code: attempt.code }),
    body: (
      <Key
        visit={visit}
        explanation={explanation}
        use={{ month, usage }}
        history={history}
        attempt={attempt}
      />
    ),
  };
}

/** Returns the handler of the form that makes a change. */
export function changeKey(action: keyof typeof KEY_CHANGES) {
  return async (visit: Visit, c: Context<AdminEnv>): Promise<Page | Response | Refusal> => {
    const uuid = keyUuidOf(visit);
    if (isRefusal(uuid)) return uuid;
    const changed = await KEY_CHANGES[action](visit, uuid);
    if (isRefusal(changed)) return await keyPage(visit, toAttempt(action, visit.form, changed));
    visit.options.directory.forgetLicense(changed.licenseUuid);
    return c.redirect(`/console/keys/${visit.params.id}?done=${action}`, 303);
  };
}

/** Returns the UUID of the key in the path. */
export function keyUuidOf({ params }: Visit): string | Refusal {
  return (
    parseId("key", params.id ?? "") ??
    refuse("KEY_NOT_FOUND", `Cannot ${WHAT}: its id must be key_ and 32 hexadecimal digits`)
  );
}

interface KeyProps {
  readonly visit: Visit;
  readonly explanation: KeyExplanation;
  readonly use: UseOfMonth;
  readonly history: readonly AuditRow[];
  readonly attempt: Attempt | undefined;
}

function Key({ visit, explanation, use, history, attempt }: KeyProps) {
  const { now, query, options } = visit;
  const { key, refusals } = explanation;
  return (
    <>
      <Heading title={`Key ${key.hint}`}>
        <State state={key.state} />
      </Heading>
      <Done query={query} sentences={DONE} />
      {attempt && !isOffered(attempt.action, { of: key, visit }) && (
        <Notice kind="bad">{attempt.sentence}.</Notice>
      )}
      <Why explanation={explanation} visit={visit} />
      <KeyActions of={key} visit={visit} attempt={attempt} />
      <div class="columns">
        <KeyFacts explanation={explanation} now={now} limits={options.limits} />
        <KeyUse id={key.id} limit={key.monthlyLimit} use={use} now={now} />
      </div>
      <Refusals refusals={refusals} now={now} />
      <History rows={history} now={now} isCut={history.length === HISTORY_ROWS} query={`key=${key.id}`} />
    </>
  );
}
