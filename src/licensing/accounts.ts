import { condition, ORDERS } from "../base/condition.ts";
import { parseId, toId } from "../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { countRows, type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { isErased } from "./_erased_email.ts";
import { selectNamedKeys } from "./named_keys.ts";
import { parseEmail } from "./parse_email.ts";
import type { Search } from "./search_accounts.ts";

export interface Account {
  /** `usr_…`. */
  readonly id: string;
  readonly uuid: string;
  readonly email: string;
  readonly name: string;
  readonly organization: string;
  readonly createdAt: Date;
  readonly keys: number;
  /** Since when it gets no key, because its keys are being revoked for an erasure. */
  readonly erasingSince: Date | null;
  /** Null also if an earlier version erased the person. */
  readonly erasedAt: Date | null;
  /** Since when none of its events has a text. */
  readonly textsErasedAt: Date | null;
}

/** Selects a part of a list. */
export interface ListPart {
  readonly search?: Search | undefined;
  /** Only rows after the row with this UUID. */
  readonly afterUuid?: string | undefined;
  /** The most rows; all by default. */
  readonly limit?: number | undefined;
}

/** The orders of the list, by their names. */
export const ACCOUNT_SORTS = [...ORDERS, "email"] as const;
type AccountSort = (typeof ACCOUNT_SORTS)[number];

/** The conditions of the list of accounts, for every door. A search comes on top of them. */
export const ACCOUNT_CONDITIONS = {
  sort: condition("the order; by default the oldest first, and email is that of the alphabet", ACCOUNT_SORTS),
} as const;

/** What sorts the list: the creation of the accounts by default. */
interface AccountOrder {
  readonly by?: "email" | undefined;
  /** Lists the newest accounts, or the last e-mails, first; `afterUuid` then selects older or earlier ones. */
  readonly newestFirst?: boolean | undefined;
}

/** Returns an order as part of a list. */
export function toAccountOrder(sort: AccountSort = "oldest"): AccountOrder {
  return { newestFirst: sort === "newest", by: sort === "email" ? "email" : undefined };
}

/**
 * Lists accounts, each with its number of keys: by default oldest first, and `afterUuid` selects later rows. In the order of e-mails
 * those are the rows after the e-mail that this account has now: if it has changed since its page was read, accounts between the two
 * e-mails are skipped, or come twice.
 */
export async function listAccounts(
  database: Database,
  part: ListPart & AccountOrder = {},
): Promise<Account[]> {
  return await select(database, part);
}

/** Counts the accounts of a list up to a number, and those after a position. */
export async function countAccounts(
  database: Database,
  { most, ...part }: ListPart & AccountOrder & { readonly most?: number } = {},
): Promise<number> {
  return await countRows(
    database,
    (sql) => sql`select from accounts a where ${meets(sql, part)} order by ${columnOf(sql, part)}`,
    { most },
  );
}

/** Finds an account by its UUID or its e-mail. */
export async function findAccount(
  database: Database,
  by: { readonly uuid: string } | { readonly email: string },
): Promise<Account | undefined> {
  const [account] = await select(database, by);
  return account;
}

/** Finds an account by its id or its e-mail. `what` is the action that the refusal names, such as `list keys`. */
export async function findAccountNamed(
  database: Database,
  who: string,
  what: string,
): Promise<Account | Refusal> {
  const uuid = parseId("usr", who);
  const email = parseEmail(who);
  const by = uuid !== undefined ? { uuid } : email !== undefined ? { email } : undefined;
  const account = by && (await findAccount(database, by));
  return account ?? refuse("NOT_FOUND", `Cannot ${what}: no account has the id or e-mail ${who}`);
}

/**
 * Finds the UUID of the account to which a list is limited; undefined if `who` is undefined. `who` is an id or an e-mail, and
 * `what` the action that the refusal names. Refuses an account that is not there, with `NOT_FOUND`.
 */
export async function findAccountOfList(
  database: Database,
  who: string | undefined,
  what: string,
): Promise<string | undefined | Refusal> {
  if (who === undefined) return undefined;
  const account = await findAccountNamed(database, who, what);
  return isRefusal(account) ? account : account.uuid;
}

/**
 * As {@linkcode findAccountOfList}, for the audit log. An id is taken without a look-up, because the log keeps the rows of
 * accounts that are gone.
 */
export async function findAccountOfAudit(
  database: Database,
  who: string | undefined,
): Promise<string | undefined | Refusal> {
  const uuid = who === undefined ? undefined : parseId("usr", who);
  return uuid ?? (await findAccountOfList(database, who, "show audit log"));
}

/** Finds the e-mails of accounts, by their ids. Erased accounts have none. */
export async function findEmails(
  database: Database,
  uuids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await database.read<Pick<Account, "uuid" | "email">>(
    (sql) => sql`select id as uuid, email from accounts where id = any(${toTextArray(uuids)}::uuid[])`,
  );
  return new Map(rows.filter((row) => !isErased(row)).map(({ uuid, email }) => [toId("usr", uuid), email]));
}

/** Tells whether an account has that e-mail, by one index look-up. */
export async function hasAccount(database: Database, email: string): Promise<boolean> {
  const rows = await database.read((sql) => sql`select from accounts where email = ${email}`);
  return rows.length > 0;
}

interface Selection extends ListPart, AccountOrder {
  readonly uuid?: string;
  readonly email?: string;
}

/** Returns the column that sorts the list; both have an index. Identifiers sort by the time at which they were made. */
function columnOf(sql: Sql, { by }: AccountOrder): Fragment {
  return by === "email" ? sql`a.email` : sql`a.id`;
}

async function select(database: Database, selection: Selection): Promise<Account[]> {
  const rows = await database.query<Omit<Account, "id">>(
    (sql) => sql`
      select a.id as uuid, a.email, a.name, a.organization, a.created_at as "createdAt",
             a.erasing_since as "erasingSince", a.erased_at as "erasedAt", a.texts_erased_at as "textsErasedAt",
             (select count(*) from listed_keys where account_id = a.id) as keys
        from accounts a
       where ${meets(sql, selection)}
       order by ${columnOf(sql, selection)} ${selection.newestFirst ? sql`desc` : sql``}
       limit ${selection.limit ?? null}::bigint`,
  );
  return rows.map((row) => ({ id: toId("usr", row.uuid), ...row }));
}

function meets(sql: Sql, selection: Selection): Fragment {
  const { uuid, email, search, afterUuid, newestFirst, by } = selection;
  const place =
    by === "email"
      ? sql`(select email from accounts where id = ${afterUuid ?? null}::uuid)`
      : sql`${afterUuid ?? null}::uuid`;
  return sql`
    ${uuid === undefined ? sql`true` : sql`a.id = ${uuid}::uuid`}
    ${email === undefined ? sql`` : sql`and a.email = ${email}::text`}
    ${afterUuid === undefined ? sql`` : sql`and ${columnOf(sql, selection)} ${newestFirst ? sql`<` : sql`>`} ${place}`}
    ${
      // As an array, so that the planner expects few accounts and looks up each by its id.
      search === undefined
        ? sql``
        : sql`and a.id = any(array(
            select account_id from listed_keys
             where key_id = any(array(${selectNamedKeys(sql, search)})))
            || ${toTextArray(search.accountUuids)}::uuid[])`
    }`;
}
