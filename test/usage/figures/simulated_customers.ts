/** Makes customers of every tier, mode and state, as operators do. */
import { monthOf } from "../../../src/base/calendar.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { type Database, type DatabaseAddress, openSession } from "../../../src/database/mod.ts";
import { generateApiKey, importKeys, revokeKey, suspendKey } from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges, TIERS } from "../../../src/licensing/mod.ts";
import { importedUsageCte } from "../../../src/usage/mod.ts";
import { ACTOR, BRAND, issue } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import type { Client } from "./simulated_requests.ts";

export interface Customer extends Client {
  readonly keyUuid: string;
  readonly licenseUuid: string;
}

/** Returns a whole number from 0 to below a bound. */
export type Random = (below: number) => number;

interface CustomersOptions {
  readonly customers: number;
  readonly now: Date;
  readonly random: Random;
}

const DAY_MS = 86_400_000;

/** Issues keys that are up to a year old; two of three accounts have one, and the others two. */
export async function makeCustomers(
  database: Database,
  { customers, now, random }: CustomersOptions,
): Promise<Customer[]> {
  const days = (count: number) => new Date(now.getTime() + count * DAY_MS);
  const made: Omit<Customer, "flaw">[] = [];
  for (let n = 0; n < customers; n++) {
    const account = n % ((customers * 2) / 3);
    const key = await issue(database, {
      email: `customer-${account}@example.org`,
      organization: account % 5 === 0 ? "" : `Clinic & Sons ${account}`,
      tier: TIERS[n % 4] ?? "free",
      mode: n % 6 === 0 ? "test" : "live",
      now: days(-50 * (1 + (n % 7))),
      // One in five has expired, and one in five expires after a month.
      expiresAt: days([-3, 30, 95, 200, 400][n % 5] ?? 0),
      ...(n % 3 === 0 && { monthlyLimit: 4 + random(40) }),
    });
    made.push({ apiKey: key.apiKey, keyUuid: uuidOf(key), licenseUuid: key.licenseUuid });
  }
  const flaws = ["suspended", "revoked"] as const;
  const all = made.map((key, n) => ({
    ...key,
    // Some licenses have keys of both modes.
    licenseUuid: (n % 12 === 0 ? made[n + 1] : key)?.licenseUuid ?? "",
    flaw: (n % 10 === 4 && flaws[(n % 4) / 2]) || ("" as const),
  }));
  const by = { actor: ACTOR, now };
  for (const { keyUuid, licenseUuid, flaw } of all) {
    await database.query(
      (sql) => sql`update keys set license_id = ${licenseUuid}::uuid where id = ${keyUuid}::uuid`,
    );
    if (flaw === "suspended") checked(await suspendKey(createLicenseChanges(database), keyUuid, by));
    if (flaw === "revoked") checked(await revokeKey(createLicenseChanges(database), { uuid: keyUuid }, by));
  }
  return all;
}

/** Imports keys with use of this month, which has no day. */
export async function importCustomers(
  address: DatabaseAddress,
  { keys, now, random }: Omit<CustomersOptions, "customers"> & { readonly keys: number },
): Promise<void> {
  const session = openSession(address, { statementTimeoutMs: 10_000 });
  const lines = Array.from({ length: keys }, (_, index) => {
    const mode = index % 2 === 0 ? "live" : "test";
    const { hash, hint } = generateApiKey(BRAND, mode);
    const email = `imported-${hash.slice(0, 8)}@example.org`;
    const rest = { tier: TIERS[index % 4] ?? "free", organization: "" };
    return { line: index + 1, key: { hash, hint, mode, email, ...rest, used: 1 + random(5_000) } as const };
  });
  const usageCte = (sql: typeof session.sql) => importedUsageCte(sql, monthOf(now.getTime()));
  checked(await importKeys(session, lines, { actor: ACTOR, now, usageCte }));
  await session.close();
}

export function checked(outcome: unknown): void {
  if (isRefusal(outcome)) throw new Error(outcome.sentence);
}
