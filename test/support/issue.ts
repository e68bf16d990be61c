/** Issues keys for tests that need a database but no service. */

import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { isRefusal, type Refusal } from "../../src/base/refusal.ts";
import type { Database } from "../../src/database/mod.ts";
import { type IssuedKey, type IssueRequest, issueKey } from "../../src/licensing/keys/mod.ts";
import { createBrand } from "../../src/licensing/mod.ts";

export const BRAND = createBrand();
export const NOW = new Date("2026-11-20T12:00:00Z");
export const ACTOR = { kind: "command", name: "tester" } as const;

let issued = 0;

/** Tries to issue a key: by default a research key for a new account, without an expiry. */
export function tryToIssue(
  database: Database,
  request: Partial<IssueRequest> = {},
): Promise<IssuedKey | Refusal> {
  const whole: IssueRequest = {
    email: `person-${++issued}@example.org`,
    tier: "research",
    mode: "live",
    expiresAt: NEVER_EXPIRES,
    now: NOW,
    ...request,
  };
  return issueKey(database, whole, { brand: BRAND, actor: ACTOR });
}

/** Issues a key like {@linkcode tryToIssue}; throws if the service refuses. */
export async function issue(database: Database, request: Partial<IssueRequest> = {}): Promise<IssuedKey> {
  return orThrow(await tryToIssue(database, request));
}

/** Returns the result; throws if the outcome is a refusal. */
export function orThrow<Result>(outcome: Result | Refusal): Result {
  if (isRefusal(outcome)) throw new Error(outcome.sentence);
  return outcome;
}

/** Returns the sentence of a refusal; throws if `outcome` is not a refusal. */
export function sentenceOf(outcome: unknown): string {
  if (!isRefusal(outcome)) throw new Error("The outcome is not a refusal");
  return outcome.sentence;
}

/** Counts the rows of the tables to which the issuing of a key writes. */
export async function countRows(database: Database): Promise<Readonly<Record<string, number>>> {
  const [row] = await database.query<Record<string, number>>(
    (sql) => sql`
      select (select count(*) from accounts) as accounts, (select count(*) from licenses) as licenses,
             (select count(*) from keys) as keys, (select count(*) from usage) as usage,
             (select count(*) from audit) as audit`,
  );
  return row ?? {};
}
