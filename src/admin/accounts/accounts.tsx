/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { ORDERS } from "../../base/condition.ts";
import { idRule } from "../../base/ids.ts";
import { renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { type Account, countAccounts, listAccounts, searchAccounts, TOO_WIDE } from "../../licensing/mod.ts";
import { SEARCH_HINT, TextField } from "../frame/console/components/form.tsx";
import { bothWays, OrderField } from "../frame/console/components/list.tsx";
import { numeric } from "../frame/console/components/table.tsx";
import { AccountLink, Day, Name } from "../frame/console/components/values.tsx";
import { fieldOf } from "../frame/console/conditions.ts";
import type { List } from "../frame/console/list_page.tsx";
import { ACCOUNT_ENTRIES } from "./accounts_routes.ts";

const ENTRIES = { ...ACCOUNT_ENTRIES, after: v.optional(parsedField(idRule("usr"))) } as const;

/** The list of accounts. */
export const ACCOUNTS: List<typeof ENTRIES, Account> = {
  title: "Accounts",
  path: "/accounts",
  scope: "accounts:read",
  entries: ENTRIES,
  async find({ options: { database } }, { search: text, sort = "newest" }) {
    const search = text === undefined ? undefined : await searchAccounts(database, text);
    const filter = { search, newestFirst: sort === "newest" };
    return {
      ...bothWays(filter, {
        list: (filter) => listAccounts(database, filter),
        count: (filter) => countAccounts(database, filter),
      }),
      warning: search?.isTooWide ? TOO_WIDE : undefined,
    };
  },
  toAfter: ({ id }) => id,
  Fields: (asked) => (
    <>
      <TextField {...fieldOf(asked, "search")} label="Search" type="search" hint={SEARCH_HINT} />
      <OrderField {...fieldOf(asked, "sort")} orders={ORDERS} />
    </>
  ),
  columns: ({ now }) => [
    { label: "Account", cell: ({ id, email }) => <AccountLink id={id} email={email} /> },
    { label: "Name", cell: ({ name, email }) => <Text text={name === email ? "" : name} /> },
    { label: "Organization", cell: ({ organization }) => <Text text={organization} /> },
    numeric("Keys", ({ id, keys }) => <a href={`/console/keys?account=${id}`}>{renderCount(keys)}</a>),
    {
      label: "Created",
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

function Text({ text }: { readonly text: string }) {
  return text === "" ? <span class="muted">–</span> : <Name text={text} />;
}
