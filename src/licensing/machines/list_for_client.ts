import * as v from "valibot";
import {
  count,
  fieldsOf,
  identifier,
  oneOfThese,
  renderFields,
  schemasOf,
  timestamp,
} from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { idRule, toId } from "../../base/ids.ts";
import { wholeNumber } from "../../base/rule.ts";
import type { Database, Fragment, Sql } from "../../database/mod.ts";
import { isFloating } from "../mod.ts";
import { type MachineSummary, placeColumns } from "./list_machines.ts";
import { isTaken, type MachineState, STATE_MEANINGS, stateOf } from "./machine_state.ts";

/** A machine that holds a place, for a client of its license. */
type HoldingMachine = Omit<MachineSummary, "userId" | "licenseId" | "email" | "signedUntil">;

/** The rule for the number of machines in a page. */
export const MACHINES_A_PAGE = wholeNumber(1, 200);
export const USUAL_PAGE = 100;

/** The rule for a machine in a request. */
export const MACHINE_ID = idRule("mch");

interface MachinesPage {
  readonly machines: readonly HoldingMachine[];
  /** The last machine of the page if there are more; otherwise null. */
  readonly next: string | null;
  /** How many places the license has, null if it does not count machines, and how many are taken. */
  readonly places: { readonly limit: number | null; readonly used: number };
  /** How many machines clients may release by their ids in so many days, and how many they have released in them. */
  readonly selfReleases: { readonly limit: number; readonly used: number; readonly days: number };
}

/**
 * Lists the machines that hold places of a license, in the order of their first activation: at most `limit`, after the one
 * with the UUID `after`. Their names are null unless the license shows them to its clients. A license that does not count
 * machines has none.
 */
export async function listForClient(
  database: Database,
  licenseUuid: string,
  {
    after = FIRST,
    limit = USUAL_PAGE,
  }: { readonly after?: string | undefined; readonly limit?: number | undefined } = {},
): Promise<MachinesPage> {
  const rows = await database.read<Facts & (Row | NoRow)>((sql) => {
    const part = { after, limit: limit + 1 };
    return sql`
      -- Materialized: otherwise the places would be counted again for each machine.
      with facts as materialized (
        select l.id, l.max_machines, coalesce(l.shows_machines, not ${isFloating(sql, sql`l`)}) as shows_names, b.most,
               extract(epoch from b.within)::integer / 86400 as days,
               (select count(*)::integer from machines m
                 where m.license_id = l.id and l.max_machines is not null and ${isTaken(sql)}) as taken,
               (select count(*)::integer from self_releases s
                 where s.license_id = l.id and s.released_at > statement_timestamp() - b.within) as released
          from licenses l cross join lateral self_release_bound(l) b
         where l.id = ${licenseUuid}::uuid
      )
      select f.max_machines as places, f.taken, f.most as releases, f.released, f.days, page.*
        from facts f
        left join lateral (
          select m.id as uuid, case when f.shows_names then m.name end as name, m.platform, ${placeColumns(sql)}
            from (${selectHolding(sql, "active", part)} union all ${selectHolding(sql, "offline", part)}) as m
           cross join lateral (select ${stateOf(sql)} as state) s
           order by m.id limit ${limit + 1}::bigint
        ) page on f.max_machines is not null
       order by page.uuid`;
  });
  const [facts] = rows;
  if (facts === undefined) throw new Error("A key has a license");
  const holding = rows.filter((row) => row.uuid !== null);
  const machines = holding
    .slice(0, limit)
    .map(({ uuid, name, platform, state, activatedAt, lastSeenAt, activeUntil, takenUntil }) => ({
      id: toId("mch", uuid),
      ...{ name, platform, state, activatedAt, lastSeenAt, activeUntil, takenUntil },
    }));
  return {
    machines,
    next: holding.length > limit ? (machines.at(-1)?.id ?? null) : null,
    places: { limit: facts.places, used: facts.taken },
    selfReleases: { limit: facts.releases, used: facts.released, days: facts.days },
  };
}

/** Before every machine. */
const FIRST = "00000000-0000-0000-0000-000000000000";

interface Facts {
  readonly places: number | null;
  readonly taken: number;
  readonly releases: number;
  readonly released: number;
  readonly days: number;
}

interface Row extends Omit<HoldingMachine, "id"> {
  readonly uuid: string;
}

/** The row of a page without machines. */
type NoRow = { readonly [Name in keyof Row]: null };

/**
 * Selects the first machines of the license `f` in a stored state that hold a place, in the order of an index. The present
 * state can be another one.
 */
function selectHolding(
  sql: Sql,
  stored: MachineState,
  { after, limit }: { readonly after: string; readonly limit: number },
): Fragment {
  return sql`
    (select m.* from machines m
      where m.license_id = f.id and m.stored_state = ${stored}::text and m.id > ${after}::uuid and ${isTaken(sql)}
      order by m.id limit ${limit}::bigint)`;
}

const field = fieldsOf<HoldingMachine>();
const SENT = "As its client sent it; null if it sent none";

const FIELDS = {
  machine_id: field(identifier("mch"), ({ id }) => id),
  name: field(
    v.nullable(v.string()),
    ({ name }) => name,
    `${SENT}, or if the license does not show names: with floating seats it does so only if the vendor allows it`,
  ),
  platform: field(v.nullable(v.string()), ({ platform }) => platform, SENT),
  state: field(
    oneOfThese(["active", "offline"] satisfies MachineState[]),
    ({ state }) => state,
    `\`active\`: ${STATE_MEANINGS.active}; \`offline\`: ${STATE_MEANINGS.offline}`,
  ),
  activated_at: field(
    timestamp(),
    ({ activatedAt }) => toTimestamp(activatedAt),
    "Since when it holds its place",
  ),
  last_seen_at: field(
    timestamp(),
    ({ lastSeenAt }) => toTimestamp(lastSeenAt),
    "Its last activation or heartbeat",
  ),
  expires_at: field(
    v.nullable(timestamp()),
    ({ activeUntil }) => activeUntil && toTimestamp(activeUntil),
    "When its seat ends without a heartbeat; null if only a release ends the activation, or if it is not active",
  ),
  taken_until: field(
    v.nullable(timestamp()),
    ({ takenUntil }) => takenUntil && toTimestamp(takenUntil),
    "When its place becomes free by itself; null if only a release frees the place",
  ),
} as const;

/** The schema of a machine in the list. */
export const holdingMachineSchema = v.object(schemasOf(FIELDS));

const ofPage = fieldsOf<MachinesPage>();

const PAGE_FIELDS = {
  machines: ofPage(v.array(holdingMachineSchema), ({ machines }) =>
    machines.map((machine) => renderFields(FIELDS, machine)),
  ),
  next: ofPage(
    v.nullable(identifier("mch")),
    ({ next }) => next,
    "What to send as `after` for the next page; null in the last one",
  ),
  places: ofPage(
    v.object({ limit: v.nullable(count(1)), used: count() }),
    ({ places }) => places,
    "The places of the license, and how many are taken; the limit is null if it does not count machines",
  ),
  self_releases: ofPage(
    v.object({ limit: count(), used: count(), days: count(1) }),
    ({ selfReleases }) => selfReleases,
    "How many machines may be released by their ids in so many days, and how many were",
  ),
} as const;

/** The schema of a page. */
export const machinesPageSchema = v.object(schemasOf(PAGE_FIELDS));

/** Renders a page as JSON. */
export function renderMachinesPage(page: MachinesPage) {
  return renderFields(PAGE_FIELDS, page);
}
