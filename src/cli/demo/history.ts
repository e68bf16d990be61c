/** Writes the history of the demo's customers: their keys, what changed, what they used, and what was refused. */
import { addActivity } from "../../activity/mod.ts";
import type { Actor } from "../../audit/mod.ts";
import type { Brand } from "../../brand.ts";
import { DAY_MS, HOUR_MS, monthOf, toMonth } from "../../calendar.ts";
import type { Database, Session } from "../../database/mod.ts";
import { parseId } from "../../ids.ts";
import {
  addRefusals,
  findKey,
  generateApiKey,
  importKeys,
  listKeys,
  type RefusalsOfKey,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
  updateLastUse,
} from "../../keys/mod.ts";
import { changeLicense, createLicenseChanges } from "../../licensing/mod.ts";
import { addUsageDays, importedUsageCte, insertUsageByDay, restartCount } from "../../usage/mod.ts";
import { orRefuse } from "../run.ts";
import { DEMO_CUSTOMERS, type DemoChange, type DemoCustomer } from "./customers.ts";
import { type DemoDay, dayBefore, daysOf, hoursOf, importedBy, refusalsOf } from "./use.ts";

export interface DemoHistoryOptions {
  readonly brand: Brand;
  readonly actor: Actor;
  readonly now: Date;
}

/** The time of day of changes, UTC. */
const MORNING_MS = 9 * HOUR_MS;
/** For how long a rotated key still works after the rotation. */
const OVERLAP_MS = 7 * DAY_MS;

/** A customer with its days and the UUID of its first key. */
interface Served {
  readonly customer: DemoCustomer;
  readonly days: readonly DemoDay[];
  readonly hash: string;
  uuid: string;
}

/** Writes how many requests the ninety days had, by hour, and has the use counted by day. */
export async function addDemoActivity(database: Database, now: Date): Promise<void> {
  const days = DEMO_CUSTOMERS.flatMap((customer) => daysOf(customer, now));
  await addActivity(database, hoursOf(days, now));
  await restartCount(database);
  const today = days.filter(({ at, used }) => used > 0 && at.getTime() === dayBefore(now, 0).getTime());
  await addUsageDays(
    database,
    today.map(({ at, tier, used }) => ({ day: at.toISOString().slice(0, 10), tier, mode: "test", used })),
  );
}

/** A change that is still to be made. */
interface Pending extends DemoChange {
  readonly of: Served;
}

/**
 * Adds the customers with ninety days of use and of refusals. The oldest change is made first, so that the audit log is
 * in order.
 */
export async function addDemoCustomers(
  database: Database,
  session: Session,
  options: DemoHistoryOptions,
): Promise<void> {
  const { now } = options;
  const served: Served[] = [];
  let pending: Pending[] = [];
  const bySince = [...Map.groupBy(DEMO_CUSTOMERS, ({ since }) => since)].sort(([a], [b]) => b - a);
  for (const [since, customers] of [...bySince, [0, []] as const]) {
    const due = pending.filter(({ daysAgo }) => daysAgo > since).sort((a, b) => b.daysAgo - a.daysAgo);
    for (const change of due)
      await applyChange(database, change, { ...options, now: morning(now, change.daysAgo) });
    pending = pending.filter(({ daysAgo }) => daysAgo <= since);
    const added = customers.length === 0 ? [] : await importCustomers(session, customers, options);
    for (const of of added) {
      of.uuid = parseId("key", (await findKey(database, { hash: of.hash }, { now }))?.id ?? "") ?? "";
      pending.push(...of.customer.changes.map((change) => ({ ...change, of })));
    }
    served.push(...added);
  }
  await writeUse(database, served, options);
  await writeRefusals(database, served, options);
}

async function importCustomers(
  session: Session,
  customers: readonly DemoCustomer[],
  { brand, actor, now }: DemoHistoryOptions,
): Promise<Served[]> {
  const [{ since } = { since: 0 }] = customers;
  const at = morning(now, since);
  const made = customers.map((customer) => {
    const days = daysOf(customer, now);
    const { name, organization, tier, firstTier = tier, expiresIn } = customer;
    const { hash, hint } = generateApiKey(brand, "test");
    const key = {
      hash,
      hint,
      mode: "test",
      email: toDemoEmail(name),
      organization,
      tier: firstTier,
      expiresAt: new Date(morning(now, 0).getTime() + expiresIn * DAY_MS),
      monthlyLimit: null,
      used: 0,
    } as const;
    return { key, served: { customer, days, hash, uuid: "" } };
  });
  const lines = made.map(({ key }, index) => ({ key, line: index + 1 }));
  const usageCte = (sql: Session["sql"]) => importedUsageCte(sql, monthOf(at.getTime()));
  orRefuse(await importKeys(session, lines, { actor, now: at, usageCte }));
  return made.map(({ served }) => served);
}

async function applyChange(
  database: Database,
  { of: { uuid }, change, by: actor }: Pending,
  options: DemoHistoryOptions,
): Promise<void> {
  const by = actor ? { ...options, actor: { ...options.actor, ...actor } } : options;
  if (typeof change === "object")
    orRefuse(await changeLicense(createLicenseChanges(database), { keyUuid: uuid }, { ...by, change }));
  else if (change === "suspend") orRefuse(await suspendKey(createLicenseChanges(database), uuid, by));
  else if (change === "resume") orRefuse(await resumeKey(createLicenseChanges(database), uuid, by));
  else if (change === "revoke") orRefuse(await revokeKey(createLicenseChanges(database), { uuid }, by));
  else {
    await updateLastUse(database, [uuid], by.now);
    orRefuse(
      await rotateKey(createLicenseChanges(database), { uuid, mode: "test", overlapMs: OVERLAP_MS }, by),
    );
  }
}

/** Writes the use by day, and the last use of the keys. */
async function writeUse(
  database: Database,
  served: readonly Served[],
  { now }: DemoHistoryOptions,
): Promise<void> {
  // A license may have two keys: the newer one is used.
  const keys = new Map((await listKeys(database, { now })).map((key) => [key.email, key]));
  const rows = served.flatMap(({ customer, days }) => {
    const licenseUuid = parseId("lic", keys.get(toDemoEmail(customer.name))?.licenseId ?? "") ?? "";
    return [...Map.groupBy(days, ({ at }) => monthOf(at.getTime()).index)].map(([index, ofMonth]) => {
      const month = toMonth(index);
      const byDay: number[] = Array(31).fill(0);
      for (const { at, used } of ofMonth) byDay[at.getUTCDate() - 1] = used;
      const isCurrent = month.index === monthOf(now.getTime()).index;
      return { licenseUuid, month, byDay, imported: isCurrent ? importedBy(customer, days, now) : 0 };
    });
  });
  await insertUsageByDay(
    database,
    rows.filter(({ byDay, imported }) => imported > 0 || byDay.some((used) => used > 0)),
  );
  const lastUses = Map.groupBy(served, ({ days }) => days.findLast(({ used }) => used > 0)?.at.getTime());
  for (const [atMs, of] of lastUses) {
    if (atMs === undefined) continue;
    const uuids = of.map(
      ({ customer: { name } }) => parseId("key", keys.get(toDemoEmail(name))?.id ?? "") ?? "",
    );
    // A key with use today was last used at this moment.
    const isToday = atMs === dayBefore(now, 0).getTime();
    await updateLastUse(database, uuids, isToday ? now : new Date(atMs + MORNING_MS));
  }
}

/** Writes why and how often the keys were refused. */
async function writeRefusals(
  database: Database,
  served: readonly Served[],
  { now }: DemoHistoryOptions,
): Promise<void> {
  const rows = served.flatMap(({ uuid, customer, days }) => {
    const ofQuota = days.filter(({ refused }) => refused > 0);
    return [
      ...customer.refusals.map((kind) => ({
        code: kind.code,
        reason: kind.reason ?? "",
        counts: refusalsOf(kind, now).map(({ hourMs, count }) => ({ atMs: hourMs, count })),
      })),
      {
        code: "QUOTA_EXCEEDED" as const,
        reason: "",
        counts: ofQuota.map(({ at, refused }) => ({ atMs: at.getTime(), count: refused })),
      },
    ].flatMap(({ code, reason, counts }): RefusalsOfKey[] => {
      const last = counts.at(-1);
      const count = counts.reduce((sum, each) => sum + each.count, 0);
      return last === undefined ? [] : [{ keyUuid: uuid, code, reason, lastAtMs: last.atMs, count }];
    });
  });
  await addRefusals(database, rows);
}

/** Returns the e-mail of a customer of the demo. `.example` is reserved (RFC 2606), so no person has it. */
export function toDemoEmail(name: string): string {
  return `${name}@demo.example`;
}

function morning(now: Date, daysAgo: number): Date {
  return new Date(dayBefore(now, daysAgo).getTime() + MORNING_MS);
}
