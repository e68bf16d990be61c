/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { idRule } from "../../base/ids.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import type { Database } from "../../database/mod.ts";
import {
  ACCOUNT_SORTS,
  type Account,
  type AccountStanding,
  countAccounts,
  findStandings,
  isErased,
  listAccounts,
  MOST_STANDING,
  searchAccounts,
  TOO_WIDE,
  toAccountOrder,
} from "../../licensing/mod.ts";
import { SEARCH_HINT, TextField } from "../frame/console/components/form.tsx";
import { bothWays, OrderField } from "../frame/console/components/list.tsx";
import { numeric } from "../frame/console/components/table.tsx";
import { Customer, Day, Lines, Pill } from "../frame/console/components/values.tsx";
import { fieldOf } from "../frame/console/conditions.ts";
import type { List } from "../frame/console/list_page.tsx";
import { ACCOUNT_ENTRIES } from "./accounts_routes.ts";

const ENTRIES = { ...ACCOUNT_ENTRIES, after: v.optional(parsedField(idRule("usr"))) } as const;

interface ListedAccount extends Account {
  /** Undefined for an account with more than {@linkcode MOST_STANDING} keys. */
  readonly standing: AccountStanding | undefined;
}

/** Lists accounts, each with what it has and uses. */
export async function listWithStandings(
  database: Database,
  part: Parameters<typeof listAccounts>[1],
  now: Date,
): Promise<ListedAccount[]> {
  const accounts = await listAccounts(database, part);
  const uuids = accounts.flatMap(({ uuid, keys }) => (keys > MOST_STANDING ? [] : [uuid]));
  const standings = await findStandings(database, uuids, now);
  return accounts.map((account) => ({ ...account, standing: standings.get(account.uuid) }));
}

/** The list of accounts. */
export const ACCOUNTS: List<typeof ENTRIES, ListedAccount> = {
  title: "Accounts",
  path: "/accounts",
  scope: "accounts:read",
  entries: ENTRIES,
  async find({ options: { database }, now }, { search: text, sort = "newest" }) {
    const search = text === undefined ? undefined : await searchAccounts(database, text);
    const filter = { search, ...toAccountOrder(sort) };
    return {
      ...bothWays(filter, {
        list: (filter) => listWithStandings(database, filter, now),
        count: (filter) => countAccounts(database, filter),
      }),
      warning: search?.isTooWide ? TOO_WIDE : undefined,
    };
  },
  toAfter: ({ id }) => id,
  Fields: (asked) => (
    <>
      <TextField {...fieldOf(asked, "search")} label="Search" type="search" hint={SEARCH_HINT} />
      <OrderField {...fieldOf(asked, "sort")} orders={ACCOUNT_SORTS} />
    </>
  ),
  columns: ({ now }) => [
    {
      label: "Account",
      sorts: ["email"],
      cell: ({ id, email, name, organization }) => (
        <Customer userId={id} email={email} hasRoom more={[name === email ? "" : name, organization]} />
      ),
    },
    {
      label: "Tier",
      cell: ({ standing }) => (standing?.tiers.length ? standing.tiers.join(", ") : NOTHING),
    },
    { label: "State", cell: StateOfAccount },
    numeric("Used this month", ({ standing }) => (standing ? renderCount(standing.used) : NOTHING)),
    numeric("Keys", ({ id, keys }) => <a href={`/console/keys?account=${id}`}>{renderCount(keys)}</a>),
    {
      label: "Created",
      needs: "middle",
      sorts: ["newest", "oldest"],
      cell: ({ createdAt }) => <Day at={createdAt} now={now} />,
    },
  ],
  order: "newest",
  noun: "account",
  noneMeets: "No account matches.",
  none: ({ may }) => (
    <>
      There is no account yet: the first key of a new e-mail makes one.{" "}
      {may("keys:issue") && <a href="/console/keys/issue">Issue a key</a>}
    </>
  ),
};

const NOTHING = "–";

/** The states of the keys of an account, the most useful one first, or what became of the account. */
function StateOfAccount(account: ListedAccount) {
  if (isErased(account)) return <Pill tone="expired">erased</Pill>;
  if (account.erasingSince !== null) return <Pill tone="warning">being erased</Pill>;
  const { standing } = account;
  if (standing === undefined)
    return <span class="muted">{`more than ${counted(MOST_STANDING, "key")}`}</span>;
  const [first, ...others] = standing.states;
  if (first === undefined) return NOTHING;
  return (
    <Lines
      text={<span class={`state ${first.state}`}>{first.state}</span>}
      more={others.map(({ state, keys }) => `${renderCount(keys)} ${state}`).join(", ")}
    />
  );
}
