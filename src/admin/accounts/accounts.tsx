/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { type Account, listAccounts, MAX_SEARCHED, searchAccounts } from "../../licensing/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { renderCount } from "../../render_count.ts";
import { idField, SEARCH_FIELD } from "../frame/api/list_fields.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { Heading, Notice } from "../frame/console/components/layout.tsx";
import { type ListPage, Pages, ROWS, takePage } from "../frame/console/components/list.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { AccountLink, Day, Foreign } from "../frame/console/components/values.tsx";
import { type Asked, codeOf, fieldOf, readConditions } from "../frame/console/conditions.ts";
import { cutText, MOST_OF_NAME } from "../frame/console/cut_text.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";

const ENTRIES = { search: v.optional(SEARCH_FIELD), after: v.optional(idField("after", "usr")) } as const;

/** The list of the accounts that match the search, newest first. */
export async function accountsPage({ options: { database }, query, now, may }: Visit): Promise<Page> {
  const asked = readConditions(query, ENTRIES);
  const values = isRefusal(asked.values) ? {} : asked.values;
  const { search: text, after: afterUuid } = values;
  const search = text === undefined ? undefined : await searchAccounts(database, text);
  const part = { afterUuid, newestFirst: true, limit: ROWS + 1 };
  const found = isRefusal(asked.values) ? [] : await listAccounts(database, { ...part, search });
  return {
    title: "Accounts",
    ...codeOf(asked),
    body: (
      <Accounts
        asked={asked}
        page={takePage(found)}
        isFirst={afterUuid === undefined}
        now={now}
        mayIssue={may("keys:issue")}
        warning={isRefusal(asked.values) ? asked.values.sentence : search?.isTooWide ? TOO_WIDE : undefined}
      />
    ),
  };
}

const MOST = renderCount(MAX_SEARCHED);
const TOO_WIDE = `More than ${MOST} accounts match, and only ${MOST} of them are listed: narrow the search`;

interface AccountsProps {
  readonly asked: Asked<typeof ENTRIES>;
  readonly page: ListPage<Account>;
  readonly isFirst: boolean;
  readonly now: Date;
  readonly mayIssue: boolean;
  readonly warning: string | undefined;
}

function Accounts({ asked, page, isFirst, now, mayIssue, warning }: AccountsProps) {
  const isFiltered = Object.keys(asked.entered).length > 0;
  return (
    <>
      <Heading title="Accounts" />
      <form class="filters" action="/console/accounts" aria-label="Conditions">
        <TextField
          {...fieldOf(asked, "search")}
          label="Search"
          type="search"
          hint="Words of e-mail, name or organization, or the last four characters of a key"
        />
        <div class="actions">
          <button type="submit">Show</button>
          {isFiltered && <a href="/console/accounts">Show all</a>}
        </div>
      </form>
      {warning && <Notice kind="warning">{warning}.</Notice>}
      {page.rows.length > 0 ? (
        <Table caption="Accounts, newest first" columns={columnsAt(now)} rows={page.rows} />
      ) : warning ? null : isFiltered || !isFirst ? (
        <p class="empty">No account matches.</p>
      ) : (
        <p class="empty">
          There is no account yet: the first key of a new e-mail makes one.{" "}
          {mayIssue && <a href="/console/keys/issue">Issue a key</a>}
        </p>
      )}
      <Pages path="/console/accounts" conditions={asked.entered} after={page.last?.id} isFirst={isFirst} />
    </>
  );
}

function columnsAt(now: Date) {
  return [
    { label: "Account", cell: ({ id, email }: Account) => <AccountLink id={id} email={email} /> },
    { label: "Name", cell: ({ name, email }: Account) => <Text text={name === email ? "" : name} /> },
    { label: "Organization", cell: ({ organization }: Account) => <Text text={organization} /> },
    {
      label: "Keys",
      isNumeric: true,
      cell: ({ id, keys }: Account) => <a href={`/console/keys?account=${id}`}>{renderCount(keys)}</a>,
    },
    { label: "Created", cell: ({ createdAt }: Account) => <Day at={createdAt} now={now} /> },
  ];
}

function Text({ text }: { readonly text: string }) {
  return text === "" ? <span class="muted">–</span> : <Foreign text={cutText(text, MOST_OF_NAME)} />;
}
