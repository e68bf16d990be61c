/** Login codes: a code begins one session, within ten minutes. Only hashes of codes are stored. */
import { type Database, type Fragment, type Sql, toTextArray } from "../database/mod.ts";
import { hashOf, randomDigits } from "./_secret_text.ts";

const CODE_BITS = 128;
const CODE_FORM = new RegExp(`^[0-9a-f]{${CODE_BITS / 4}}$`);
const CODE_LIFE_MS = 10 * 60_000;
/** A longer text is no code, whatever stands between its digits. */
export const MOST_OF_CODE = 100;

export type NewCode = Readonly<ReturnType<typeof makeCode>>;

/** Makes a code of 32 hexadecimal digits from the system's random source. It is not stored, so nobody can read it. */
export function makeCode(now: Date) {
  return { code: randomDigits(CODE_BITS), expiresAt: new Date(now.getTime() + CODE_LIFE_MS) };
}

/** Returns the statement that stores a code for the operator in the row of `from`, whose column is `name`. */
export function insertCode(sql: Sql, { code, expiresAt }: NewCode, from: Fragment): Fragment {
  return sql`
    insert into login_codes (hash, operator, expires_at)
    select ${hashOf(code)}::text::bytea, name, ${expiresAt}::timestamptz from ${from}`;
}

/**
 * Returns the digits of a code; undefined for a text without the form of one. White space, hyphens and capitals do not
 * matter, because people type codes.
 */
export function parseCode(text: string): string | undefined {
  const code = text.slice(0, MOST_OF_CODE).replaceAll(/[\s-]/g, "").toLowerCase();
  return CODE_FORM.test(code) ? code : undefined;
}

/** Finds the operators whom codes log in, by the digits of each code, and leaves the codes as they are. */
export async function findOperatorsOfCodes(
  database: Database,
  codes: readonly string[],
  { now }: { readonly now: Date },
): Promise<ReadonlyMap<string, string>> {
  const rows = await database.query<{ readonly n: number; readonly operator: string }>(
    (sql) => sql`
      select n::int, operator
        from unnest(${toTextArray(codes.map(hashOf))}::text[]::bytea[]) with ordinality as asked (hash, n)
             join login_codes using (hash)
       where expires_at > ${now}::timestamptz`,
  );
  return new Map(rows.map(({ n, operator }) => [codes[n - 1] ?? "", operator]));
}

/** Returns the statement that deletes a code and returns its operator, so a code works once. */
export function takeCode(sql: Sql, text: string, now: Date): Fragment {
  return sql`
    delete from login_codes
     where hash = ${hashOf(parseCode(text) ?? "")}::text::bytea and expires_at > ${now}::timestamptz
    returning operator`;
}

/** Returns the statement that deletes the codes that do not work any more. */
export function deleteEndedCodes(sql: Sql, now: Date): Fragment {
  return sql`delete from login_codes where expires_at <= ${now}::timestamptz`;
}

/** Returns the statement that deletes the codes of the operators in `from`, whose column is `name`. */
export function deleteCodesOf(sql: Sql, from: Fragment): Fragment {
  return sql`delete from login_codes where operator in (select name from ${from})`;
}

/** Deletes the codes with which an operator could still log in. */
export async function deleteCodes(database: Database, operator: string): Promise<void> {
  await database.query((sql) => sql`delete from login_codes where operator = ${operator}`);
}
