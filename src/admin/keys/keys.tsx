/** @jsxImportSource hono/jsx */
import type { Child } from "hono/jsx";
import * as v from "valibot";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import {
  countListed,
  KEY_POSITION,
  KEY_SORTS,
  type KeySummary,
  listKeys,
  listUuids,
  MOST_PLACES,
  positionOf,
  renderKeysCsv,
} from "../../licensing/keys/mod.ts";
import {
  findAccountOfList,
  LISTED_STATES,
  MODES,
  searchAccounts,
  TIERS,
  TOO_WIDE,
} from "../../licensing/mod.ts";
import { MOST_DAYS_LEFT, MOST_SORTED, toKeyFilter, UNUSED_DAYS } from "../../usage/figures/mod.ts";
import { Choice, choicesOf, SEARCH_HINT, Select, TextField } from "../frame/console/components/form.tsx";
import { IssueButton } from "../frame/console/components/layout.tsx";
import { bothWays, OrderField } from "../frame/console/components/list.tsx";
import {
  Ago,
  Customer,
  Day,
  daysUntil,
  KeyLink,
  Lines,
  NONE,
  State,
  Used,
} from "../frame/console/components/values.tsx";
import { type Asked, fieldOf, nameConditions } from "../frame/console/conditions.ts";
import type { FieldsOf } from "../frame/console/form_fields.ts";
import type { Found, List, Listed } from "../frame/console/list_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { findStored, KEY_ENTRIES } from "./key_list_routes.ts";

/** The most keys of a selection. The ids of more would not fit into a form. */
export const MOST_KEYS = 1_000;
const ENTRIES = { ...KEY_ENTRIES, after: v.optional(parsedField(KEY_POSITION)) } as const;

/** The list of keys. */
export const KEYS: List<typeof ENTRIES, KeySummary> = {
  title: "Keys",
  path: "/keys",
  scope: "keys:read",
  entries: ENTRIES,
  script: "select",
  find: findKeys,
  toAfter: (key) => positionOf(key, key.id),
  Fields,
  columns: ({ now, may, query }) => [
    {
      label: "Key",
      sorts: ["newest", "oldest"],
      cell: ({ id, hint }) => (
        <>
          {may("keys:manage") && <input type="checkbox" name="id" value={id} aria-label={hint} />}
          <Lines text={<KeyLink id={id} text={hint} />} more={<code class="id">{id}</code>} />
        </>
      ),
    },
    {
      label: "Account",
      cell: ({ userId, email, name, organization, externalId }) => (
        <Customer
          userId={userId}
          email={email}
          more={[name === email ? "" : name, organization, externalId ?? ""]}
        />
      ),
    },
    { label: "State", cell: (key) => <State of={key} /> },
    {
      label: "Tier, mode",
      needs: "middle",
      cell: (key) => <Lines text={key.tier} more={[key.mode, renderTaken(key)].filter(Boolean).join(", ")} />,
    },
    {
      label: "Used this month",
      isNumeric: true,
      sorts: ["most_used"],
      cell: ({ used, monthlyLimit, runsOutOn }) => (
        <Lines
          text={<Used used={used} limit={monthlyLimit} />}
          more={runsOutOn && !isByRunOut(query) && `runs out on ${runsOutOn}`}
        />
      ),
    },
    ...(isByRunOut(query) ? [{ label: "Runs out", cell: (key: KeySummary) => renderRunOut(key, now) }] : []),
    {
      label: "Expires",
      needs: "middle",
      sorts: ["soonest_expiry", "latest_expiry"],
      cell: ({ expiresAt }) => <Day at={expiresAt} now={now} />,
    },
    {
      label: "Last used",
      needs: "wide",
      sorts: ["latest_used"],
      cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} now={now} />,
    },
  ],
  order: "newest",
  noun: "key",
  sumUp: sumUse,
  noneMeets: "No key meets these conditions.",
  none: ({ may }) => `No key has been issued yet.${may("keys:issue") ? " Issue the first one." : ""}`,
  beside: ({ may }) => may("keys:issue") && <IssueButton />,
  around: ({ may }) => (may("keys:manage") ? selectKeys : undefined),
  csv: renderKeysCsv,
};

/** Returns the form around the table, which selects some keys, or all that meet the conditions. */
function selectKeys(table: Child, { entered, total }: Listed) {
  const keys = total === undefined ? "keys" : counted(total, "key");
  const which = nameConditions(entered).length === 0 ? keys : `${keys} that meet the conditions`;
  return (
    <form class="selects" method="post" action="/console/keys/many">
      {table}
      <input type="hidden" name="conditions" value={String(new URLSearchParams(entered))} />
      <div class="actions" id="selection" tabindex={-1}>
        {total !== undefined && total > MOST_KEYS ? (
          <span class="hint">{`To select all, narrow the conditions to ${renderCount(MOST_KEYS)} keys`}</span>
        ) : (
          total !== 1 && (
            <Choice
              type="checkbox"
              name="all"
              value="yes"
              label={total === undefined ? `All ${which}, up to ${renderCount(MOST_KEYS)}` : `All ${which}`}
              checked={false}
            />
          )
        )}
        <button type="submit">Change the selected keys…</button>
        <button type="submit" class="quiet" formaction="/console/keys/many.csv">
          Download the selected keys as CSV
        </button>
      </div>
    </form>
  );
}

/** Finds the keys that meet the conditions, and in any order their UUIDs. */
export async function findKeys(
  { options, now }: Visit,
  { search: text, account: who, ...conditions }: FieldsOf<typeof ENTRIES>,
): Promise<(Found<KeySummary> & { listUuids(most: number): Promise<string[]> }) | Refusal> {
  const { database } = options;
  const stored = await findStored(conditions, options, now);
  if (isRefusal(stored)) return stored;
  const search = text === undefined ? undefined : await searchAccounts(database, text);
  const accountUuid = await findAccountOfList(database, who, "list keys");
  if (isRefusal(accountUuid)) return accountUuid;
  const filter = {
    ...toKeyFilter({ sort: "newest", ...conditions }),
    search,
    accountUuid,
    ...stored?.filter,
  };
  return {
    ...bothWays(filter, {
      list: (filter) => listKeys(database, { now, filter }),
      count: (filter) => countListed(database, { now, filter }),
    }),
    listUuids: (most) => listUuids(database, { now, filter, most }),
    warning: search?.isTooWide ? TOO_WIDE : undefined,
    note: stored && (
      <p class="hint figures">
        {stored.filter.by && `The first ${renderCount(MOST_SORTED)} keys of this order are shown. `}
        The list is that of the stored figures, counted <Ago at={stored.asOf} now={now} />
        {conditions.runs_out_within !== undefined && `. ${RATE_DECIDES}.`}
      </p>
    ),
  };
}

/** What a list by the day on which the quota runs out leaves out. */
const RATE_DECIDES =
  "The mean of the last seven whole days decides: a license that is near its quota, but lasts at that rate until the quota resets, " +
  "is not in this list";

/** Tells whether a list has only the keys whose quota is used up or runs out. */
function isByRunOut(query: Visit["query"]): boolean {
  return Boolean(query.get("runs_out_within"));
}

/** Renders the day on which the quota of a key runs out, and how far that is. */
function renderRunOut({ runsOutOn, used, monthlyLimit }: KeySummary, now: Date): Child {
  if (runsOutOn !== null) return <Lines text={runsOutOn} more={daysUntil(runsOutOn, now)} />;
  return monthlyLimit !== null && used >= monthlyLimit ? "used up" : NONE;
}

/** Renders the places of a license that machines hold: `3 of 5 places`; empty if machines are not counted. */
function renderTaken({ placesTaken, maxMachines }: KeySummary): string {
  if (placesTaken === null || maxMachines === null) return "";
  const isMore = placesTaken === MOST_PLACES && maxMachines > MOST_PLACES;
  return `${renderCount(placesTaken)}${isMore ? " or more" : ""} of ${renderCount(maxMachines)} places`;
}

/** Says what the licenses of the keys used. Several keys can share the use of a license. */
function sumUse(keys: readonly KeySummary[]): string {
  const used = new Map(keys.map((key) => [key.licenseId, key.used])).values().reduce((a, b) => a + b, 0);
  return `used by these: ${renderCount(used)}`;
}

const NEAR_PERCENTAGES = ["80", "90", "100"];
const RUNS_OUT_DAYS = ["1", "3", "7", "14", `${MOST_DAYS_LEFT}`];

function Fields(asked: Asked<typeof ENTRIES>) {
  const { search, state, refused_now, tier, mode, sort, ...more } = asked.entered;
  const field = (name: keyof typeof KEY_ENTRIES) => fieldOf(asked, name);
  return (
    <>
      <TextField {...field("search")} label="Search" type="search" hint={SEARCH_HINT} />
      <Select {...field("state")} label="State" choices={choicesOf(LISTED_STATES)} />
      <Select {...field("refused_now")} label="Refused now" choices={choicesOf(["true"], () => "yes")} />
      <Select {...field("tier")} label="Tier" choices={choicesOf(TIERS)} />
      <Select {...field("mode")} label="Mode" choices={choicesOf(MODES)} />
      <OrderField {...field("sort")} orders={KEY_SORTS} />
      <details class="more-filters" open={Object.keys(more).length > 0}>
        <summary>More conditions</summary>
        <div>
          <TextField {...field("account")} label="Account" hint="Its id or e-mail" />
          <TextField
            {...field("expiring_within")}
            label="License expires within"
            hint="Days from now"
            inputmode="numeric"
          />
          <TextField {...field("external_id")} label="External id" hint="Your own name for the license" />
          <TextField {...field("feature")} label="Feature" hint="That the license has now" />
          <Select
            {...field("near_quota")}
            label="Quota used"
            choices={choicesOf(NEAR_PERCENTAGES, (percent) => `${percent} % or more`)}
          />
          <Select
            {...field("runs_out_within")}
            label="Quota used up or runs out"
            choices={choicesOf(RUNS_OUT_DAYS, (days) =>
              days === `${MOST_DAYS_LEFT}` ? "this month" : `within ${days} day${days === "1" ? "" : "s"}`,
            )}
          />
          <Select
            {...field("all_places_taken")}
            label="Places for machines"
            choices={choicesOf(["true"], () => "all taken")}
          />
          <Select
            {...field("unused_for")}
            label="Not used for"
            choices={choicesOf(UNUSED_DAYS.map(String), (days) => `${days} days`)}
          />
        </div>
      </details>
    </>
  );
}
