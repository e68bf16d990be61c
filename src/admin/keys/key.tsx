/** @jsxImportSource hono/jsx */
/** The page of a key: what it is, why it works or does not, its use and its history, and what an operator can change. */
import { type Month, monthOf, toMonth, toMonthText } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { explainKey, type KeyExplanation, type KeySummary } from "../../licensing/keys/mod.ts";
import { describePlaces, describeTerm, refuseUnknownKey } from "../../licensing/mod.ts";
import { findTextsToday, findUsageByDay, type TextsToday, type UsageByDay } from "../../usage/mod.ts";
import { MONTH_ENTRY } from "../frame/api/fields.ts";
import { keyFor } from "../frame/api/path_ids.ts";
import { Bars } from "../frame/console/components/charts.tsx";
import { History, readHistory } from "../frame/console/components/history.tsx";
import { Id } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import {
  AccountLink,
  Ago,
  Day,
  Foreign,
  KeyLink,
  LicenseLink,
  Size,
  State,
} from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import { TEXT } from "../frame/console/form_fields.ts";
import type { Visit } from "../frame/console/visit.ts";
import { MachinesPanel, readMachines } from "../machines/machines.tsx";
import { KEY_ACTIONS } from "./actions.ts";
import { type ActedKey, uuidOf, withTiers } from "./key_action.ts";
import { CustomerSees, RefusalsOfKey } from "./key_answer.tsx";
import { Why } from "./key_why.tsx";

export const KEY_PAGE: DetailPage<KeyExplanation & ActedKey> = {
  path: "/keys/:id",
  scope: "keys:read",
  addressOf: ({ key }) => `/keys/${key.id}`,
  actions: KEY_ACTIONS,
  async find({ options, params, now }) {
    const named = keyFor("show key").read(params);
    if (isRefusal(named)) return named;
    const { what, uuid } = named;
    const explained = await explainKey(options.database, uuid, { now });
    return explained ? await withTiers(options.database, explained) : refuseUnknownKey(what, uuid);
  },
  show: showKey,
};

async function showKey(explanation: KeyExplanation, visit: Visit): Promise<Detail | Refusal> {
  const { key, refusals } = explanation;
  const { options, now, query } = visit;
  const { database } = options;
  const { values } = readConditions(query, { ...MONTH_ENTRY, done: TEXT, open: TEXT });
  if (isRefusal(values)) return values;
  const { month = monthOf(now.getTime()) } = values;
  const of = { license: key.licenseId };
  const licenseUuid = parseId("lic", key.licenseId) ?? "";
  const findUsage = (of: Month) => findUsageByDay(database, licenseUuid, of);
  const [usage, before, texts, history, machines] = await Promise.all([
    findUsage(month),
    findUsage(toMonth(month.index - 1)),
    findTextsToday(database, licenseUuid, now),
    readHistory(database, { keyUuid: uuidOf(explanation) }),
    readMachines(visit, of),
  ]);
  return {
    title: `Key ${key.hint}`,
    name: `…${key.hint.slice(-4)}`,
    // A second rotation would be refused, and hide the key that the first one shows.
    script: "submit_once",
    beside: <State of={key} />,
    above: (done) => (
      <>
        <Why explanation={explanation} visit={visit} done={done} />
        <CustomerSees explanation={explanation} now={now} limits={options.limits} />
      </>
    ),
    below: (
      <>
        <div class="columns">
          <KeyFacts of={key} texts={texts} now={now} />
          <KeyUse of={key} month={month} usage={usage} before={before} now={now} />
        </div>
        <MachinesPanel machines={machines} of={of} places={key.maxMachines} now={now} />
        <RefusalsOfKey refusals={refusals} now={now} />
        <History rows={history} now={now} query={`key=${key.id}`} />
      </>
    ),
  };
}

interface KeyFactsProps {
  readonly of: KeySummary;
  readonly texts: TextsToday;
  readonly now: Date;
}

/** The facts of the key. */
function KeyFacts({ of: key, texts, now }: KeyFactsProps) {
  const names = [key.name === key.email ? "" : key.name, key.organization].filter((text) => text !== "");
  const hasOwnExpiry = key.expiresAt < key.licenseExpiresAt;
  return (
    <Facts
      facts={[
        ["Key id", <Id id={key.id} />],
        [
          "Account",
          <>
            <AccountLink id={key.userId} email={key.email} />
            {names.map((text) => (
              <span class="more">
                <Foreign text={text} />
              </span>
            ))}
          </>,
        ],
        ["License", <LicenseLink id={key.licenseId} />],
        ["External id", key.externalId === null ? "none" : <Foreign text={key.externalId} />],
        ["Mode", key.mode],
        ["Machines", describePlaces(key)],
        key.termDays !== null && ["Term", describeTerm(key, now)],
        key.updatesUntil && ["Updates until", <Day at={key.updatesUntil} now={now} />],
        hasOwnExpiry && ["License expires", <Day at={key.licenseExpiresAt} now={now} />],
        ["Last used", key.lastUsedAt ? <Ago at={key.lastUsedAt} now={now} /> : "never"],
        ["Texts of events today", <Texts of={texts} now={now} />],
        ["Issued", <Ago at={key.createdAt} now={now} />],
        key.replacedBy === null ? null : ["Replaced by", <KeyLink id={key.replacedBy} />],
      ]}
    />
  );
}

/** How much `metadata` and how many messages the license has stored today, and whether there is room for more. */
function Texts({ of: { bytes, leftOutAt }, now }: Pick<KeyFactsProps, "now"> & { readonly of: TextsToday }) {
  if (leftOutAt === null) return bytes === 0 ? "none" : <Size bytes={bytes} />;
  return (
    <>
      left out: there was no more room <Ago at={leftOutAt} now={now} />
    </>
  );
}

interface KeyUseProps {
  readonly of: KeySummary;
  readonly month: Month;
  readonly usage: UsageByDay;
  /** Of the month before. */
  readonly before: UsageByDay;
  readonly now: Date;
}

/** The use of a month by day. If the license has a limit, a line shows the daily use that would just reach it. */
function KeyUse({ of: { id, monthlyLimit: limit }, month, usage, before, now }: KeyUseProps) {
  const shown = toMonthText(month);
  const isCurrent = month.index === monthOf(now.getTime()).index;
  const aDay = limit === null ? 0 : Math.floor(limit / usage.days.length);
  // Without today, which is not over.
  const over = isCurrent ? now.getUTCDate() - 1 : usage.days.length;
  const compared = {
    columns: [before, usage].map(({ days }) => ({ values: days.slice(0, over).map(({ used }) => used) })),
    than: `${isCurrent ? "the same days of " : ""}${toMonthText(toMonth(month.index - 1))}`,
  };
  const link = (index: number, label: string) => (
    <a href={`/console/keys/${id}?month=${toMonthText(toMonth(index))}#use`}>{label}</a>
  );
  return (
    <section aria-labelledby="use">
      <h2 id="use">{`Use in ${shown}`}</h2>
      <Bars
        caption="Inferences of the license by day"
        columnName="Day"
        parts={["Inferences"]}
        series={usage.days.map(({ day, used }) => ({
          label: day.slice(5),
          title: day,
          values: [used],
        }))}
        limit={
          limit === null
            ? undefined
            : { value: aDay, label: `${renderCount(aDay)} every day would use up the limit of the month` }
        }
        unit="inferences"
        compared={over > 0 ? compared : undefined}
        empty="The license was not used on any day of this month."
      />
      {usage.imported > 0 && (
        <p class="hint">
          {`${renderCount(usage.imported)} more were imported without a day: ${renderCount(usage.used)} in all.`}
        </p>
      )}
      {usage.over > 0 && (
        <p class="hint">
          {`${renderCount(usage.over)} more were beyond the limit, as imported reports say: the quota does not count them.`}
        </p>
      )}
      <nav class="pages" aria-label="Months">
        {link(month.index - 1, "Month before")}
        {!isCurrent && link(month.index + 1, "Month after")}
      </nav>
    </section>
  );
}
