/** Functions that the tests of lists share: they read a list to its end, and make the rows that lists show. */
import { expect } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import type { TestAdmin } from "../support/admin.ts";
import { ACTOR } from "../support/issue.ts";
import { addNewModel } from "../support/new_model.ts";

export const DAY_MS = 86_400_000;

/** Returns who changes something, and when. */
export function by(admin: TestAdmin) {
  return { actor: ACTOR, now: admin.clock.now() };
}

/** Reads a list to its end, and calls `between` after each page. */
export async function readAll(
  admin: TestAdmin,
  path: string,
  between: () => unknown = () => {},
): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  const separator = path.includes("?") ? "&" : "?";
  for (let next: string | null = ""; next !== null; await between()) {
    const { status, body } = await admin.call("GET", `${path}${next && `${separator}after=${next}`}`);
    expect({ status, body }).toMatchObject({ status: 200 });
    rows.push(...body.data);
    ({ next } = body);
  }
  return rows;
}

/** Makes a key's license use units in this month. */
export async function use({ database, clock }: TestAdmin, key: IssuedKey, used: number): Promise<void> {
  await database.query(
    (sql) => sql`
      insert into usage (license_id, month, used)
      values (${key.licenseUuid}::uuid, date_trunc('month', ${clock.now()}::timestamptz at time zone 'UTC'), ${used}::bigint)`,
  );
}

/** Adds a version of a model. */
export async function add(admin: TestAdmin, name: string, version = "1.0.0"): Promise<void> {
  await addNewModel(admin.database, { name, version }, { now: admin.clock.now() });
}
