/** @jsxImportSource hono/jsx */
/** The page of a key: what it is, why it works or does not, its use and its history, and what an operator can change. */
import { listAudit } from "../../audit/mod.ts";
import { monthOf } from "../../calendar.ts";
import { parseId } from "../../ids.ts";
import { explainKey, type KeySummary } from "../../keys/mod.ts";
import { refuseUnknownKey } from "../../licensing/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { findUsageByDay } from "../../usage/mod.ts";
import type { ActionPage } from "../frame/console/action.ts";
import { Actions, LastAction } from "../frame/console/components/action.tsx";
import { History } from "../frame/console/components/history.tsx";
import { Heading } from "../frame/console/components/layout.tsx";
import { State } from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import { TEXT } from "../frame/console/form_fields.ts";
import { MONTH_ENTRY } from "../frame/console/month.ts";
import type { Page } from "../frame/console/page.tsx";
import type { RefusedForm } from "../frame/console/refused_form.ts";
import type { Visit } from "../frame/console/visit.ts";
import { KEY_ACTIONS } from "./actions.tsx";
import { findNamedKey, type NamedKey, uuidOf } from "./key_action.ts";
import { KeyFacts } from "./key_facts.tsx";
import { Refusals } from "./key_refusals.tsx";
import { KeyUse } from "./key_use.tsx";
import { Why } from "./key_why.tsx";

const HISTORY_ROWS = 20;

/** The page of a key, with its actions. */
export const KEY_PAGE: ActionPage<NamedKey, KeySummary> = {
  path: "/keys/:id",
  addressOf: ({ id }) => `/keys/${id}`,
  actions: KEY_ACTIONS,
  find: findNamedKey,
  show: keyPage,
};

/** Shows a key. After a form was refused, it is open and says why. */
async function keyPage(named: NamedKey, visit: Visit, refused?: RefusedForm): Promise<Page | Refusal> {
  const uuid = uuidOf(named);
  const { options, now, query } = visit;
  const { database } = options;
  const explanation = await explainKey(database, uuid, { now });
  if (explanation === undefined) return refuseUnknownKey("show key", uuid);
  const { key, refusals } = explanation;
  const { values } = readConditions(query, { ...MONTH_ENTRY, done: TEXT, open: TEXT });
  if (isRefusal(values)) return values;
  const { month = monthOf(now.getTime()) } = values;
  const [usage, history] = await Promise.all([
    findUsageByDay(database, parseId("lic", key.licenseId) ?? "", month),
    listAudit(database, { keyUuid: uuid, limit: HISTORY_ROWS }),
  ]);
  const shown = { page: KEY_PAGE, of: key, visit, refused };
  return {
    title: `Key ${key.hint}`,
    // A second rotation would be refused, and hide the key that the first one shows.
    script: "submit_once",
    body: (
      <>
        <Heading title={`Key ${key.hint}`}>
          <State state={key.state} />
        </Heading>
        <LastAction {...shown} />
        <Why explanation={explanation} visit={visit} />
        <Actions {...shown} />
        <div class="columns">
          <KeyFacts explanation={explanation} now={now} limits={options.limits} />
          <KeyUse id={key.id} limit={key.monthlyLimit} month={month} usage={usage} now={now} />
        </div>
        <Refusals refusals={refusals} now={now} />
        <History rows={history} now={now} isCut={history.length === HISTORY_ROWS} query={`key=${key.id}`} />
      </>
    ),
  };
}
