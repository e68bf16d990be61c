/** What an account has and uses, for lists of accounts. */
import { monthOf } from "../base/calendar.ts";
import { type Database, toTextArray } from "../database/mod.ts";
import { type ListedState, listedState } from "./key_states.ts";
import { TIERS, type Tier } from "./tiers.ts";

/** An account with more keys or licenses has no standing: adding them up would take too long for a list. */
export const MOST_STANDING = 100;

export interface AccountStanding {
  /** The tiers of the keys that are neither revoked nor expired, the highest first. */
  readonly tiers: readonly Tier[];
  /** How many keys are in each state, those that work first; states without keys are left out. */
  readonly states: readonly { readonly state: ListedState; readonly keys: number }[];
  /** The inferences of this month, over all licenses. */
  readonly used: number;
}

const STATES: readonly ListedState[] = ["active", "suspended", "expired", "revoked"];

interface Row {
  readonly uuid: string;
  readonly keys: readonly { readonly tier: Tier; readonly state: ListedState; readonly count: number }[];
  readonly used: number;
  readonly isLarge: boolean;
}

/** Finds the standing of each of these accounts that has at most {@linkcode MOST_STANDING} keys and licenses. */
export async function findStandings(
  database: Database,
  uuids: readonly string[],
  now: Date,
): Promise<ReadonlyMap<string, AccountStanding>> {
  const rows = await database.read<Row>(
    (sql) => sql`
      select a.id as uuid, coalesce(k.keys, '[]') as keys, coalesce(k.count, 0) > ${MOST_STANDING} or u.licenses > ${MOST_STANDING} as "isLarge",
             u.used
        from unnest(${toTextArray(uuids)}::uuid[]) as a (id)
       cross join lateral (
             select json_agg(json_build_object('tier', tier, 'state', state, 'count', count)) as keys, sum(count)::bigint as count
               from (select tier, ${listedState(sql, { state: sql`state`, endsAt: sql`expires_at`, now })} as state, count(*)
                       from (select tier, state, expires_at from listed_keys
                              where account_id = a.id limit ${MOST_STANDING + 1}) as few
                      group by 1, 2) as counted) as k
       cross join lateral (
             select count(*) as licenses, coalesce(sum(used), 0)::bigint as used
               from (select id from licenses where account_id = a.id limit ${MOST_STANDING + 1}) as few
               left join usage on license_id = few.id and month = ${monthOf(now.getTime()).firstDay}::date) as u`,
  );
  return new Map(
    rows.filter(({ isLarge }) => !isLarge).map(({ uuid, keys, used }) => [uuid, toStanding(keys, used)]),
  );
}

function toStanding(keys: Row["keys"], used: number): AccountStanding {
  const works = keys.filter(({ state }) => state !== "revoked" && state !== "expired");
  const countOf = (state: ListedState) =>
    keys.reduce((sum, each) => (each.state === state ? sum + each.count : sum), 0);
  return {
    tiers: TIERS.toReversed().filter((tier) => works.some((each) => each.tier === tier)),
    states: STATES.map((state) => ({ state, keys: countOf(state) })).filter(({ keys }) => keys > 0),
    used,
  };
}
