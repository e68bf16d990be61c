/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { idRule } from "../../base/ids.ts";
import { renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { type Account, countAccounts, listAccounts, searchAccounts, TOO_WIDE } from "../../licensing/mod.ts";
import { SEARCH_FIELD } from "../frame/api/fields.ts";
import { SEARCH_HINT, TextField } from "../frame/console/components/form.tsx";
import { numeric } from "../frame/console/components/table.tsx";
import { AccountLink, Day, Name } from "../frame/console/components/values.tsx";
import { fieldOf } from "../frame/console/conditions.ts";
import type { List } from "../frame/console/list_page.tsx";

const ENTRIES = { search: v.optional(SEARCH_FIELD), after: v.optional(parsedField(idRule("usr"))) } as const;

/** The list of accounts. */
export const ACCOUNTS: List<typeof ENTRIES, Account> = {
  title: "Accounts",
  path: "/accounts",
  scope: "accounts:read",
  entries: ENTRIES,
  async find({ options: { database } }, { search: text }) {
    const search = text === undefined ? undefined : await searchAccounts(database, text);
    return {
      read: (afterUuid, limit, isBackwards) =>
        listAccounts(database, { afterUuid, limit, newestFirst: !isBackwards, search }),
      count: (afterUuid) => countAccounts(database, { afterUuid, search }),
      warning: search?.isTooWide ? TOO_WIDE : undefined,
    };
  },
  toAfter: ({ id }) => id,
  Fields: (asked) => (
    <TextField {...fieldOf(asked, "search")} label="Search" type="search" hint={SEARCH_HINT} />
  ),
  columns: ({ now }) => [
    { label: "Account", cell: ({ id, email }) => <AccountLink id={id} email={email} /> },
    { label: "Name", cell: ({ name, email }) => <Text text={name === email ? "" : name} /> },
    { label: "Organization", cell: ({ organization }) => <Text text={organization} /> },
    numeric("Keys", ({ id, keys }) => <a href={`/console/keys?account=${id}`}>{renderCount(keys)}</a>),
    { label: "Created", cell: ({ createdAt }) => <Day at={createdAt} now={now} /> },
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
