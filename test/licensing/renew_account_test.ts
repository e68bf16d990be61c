import { describe, expect, test } from "bun:test";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { type IssuedKey, revokeKey } from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  findLicense,
  findRenewable,
  moveLicense,
  renewAccount,
} from "../../src/licensing/mod.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { createTestDatabase } from "../support/database.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { ACTOR, issue, NOW } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";

const server = useForEach(createTestDatabase);

const BY = { actor: { ...ACTOR, reason: "paid" }, now: NOW };
const issueUntil = (email: string, expiresAt: Date) => issue(server.database, { email, expiresAt });
const renew = ({ userId }: IssuedKey) =>
  renewAccount(createLicenseChanges(server.database), parseId("usr", userId) ?? "", BY);

const renewal = ({ licenseUuid }: IssuedKey, from: string, to: string) => ({
  licenseUuid,
  from: new Date(from),
  expiresAt: new Date(to),
});

describe("renewAccount()", () => {
  test("renewAccount() adds no second year to a license that moved to the account after a renewal", async () => {
    const key = await issueUntil("grace@example.org", new Date("2027-03-01T10:00:00Z"));
    const other = await issueUntil("ada@example.org", NEVER_EXPIRES);
    expect(await renew(key)).toHaveLength(1);
    const to = { email: "ada@example.org", mayBeNew: false };
    const moved = await moveLicense(createLicenseChanges(server.database), key.licenseUuid, { to, ...BY });
    expect(isRefusal(moved)).toBe(false);
    expect(await renew(other)).toEqual([]);
    const license = await findLicense(server.database, key.licenseUuid, BY);
    expect(license).toMatchObject({ userId: other.userId, expiresAt: new Date("2028-03-01T10:00:00Z") });
  });

  test("renewAccount() adds a year to every license, and to now for one that has expired", async () => {
    const email = "grace@example.org";
    const current = await issueUntil(email, new Date("2027-03-01T10:00:00Z"));
    const leap = await issueUntil(email, new Date("2028-02-29T23:59:59Z"));
    const expired = await issueUntil(email, new Date("2026-11-21T00:00:00Z"));
    const another = await issueUntil("ada@example.org", new Date("2027-03-01T00:00:00Z"));
    const later = new Date("2026-11-22T08:30:00.500Z");
    const uuid = parseId("usr", current.userId) ?? "";
    const shown = await findRenewable(server.database, uuid, { now: later });
    const renewed = await renewAccount(createLicenseChanges(server.database), uuid, { ...BY, now: later });
    expect(renewed).toEqual([
      renewal(current, "2027-03-01T10:00:00Z", "2028-03-01T10:00:00Z"),
      renewal(leap, "2028-02-29T23:59:59Z", "2029-02-28T23:59:59Z"),
      renewal(expired, "2026-11-21T00:00:00Z", "2027-11-22T08:30:00Z"),
    ]);
    expect(shown.licenses).toEqual(renewed);
    const untouched = await findLicense(server.database, another.licenseUuid, BY);
    expect(untouched?.expiresAt).toEqual(new Date("2027-03-01T00:00:00Z"));
    const log = await server.database.query<{ key: string; after: { expires_at: string } }>(
      (sql) => sql`
        select key_id as key, reason, after from audit where action = 'license.renew' order by license_id`,
    );
    expect(log.map(({ key }) => key)).toEqual(
      [current, leap, expired].map(({ id }) => parseId("key", id) ?? ""),
    );
    expect(log[0]).toMatchObject({ reason: "paid", after: { expires_at: "2028-03-01T10:00:00+00:00" } });
  });

  test("renewAccount() leaves licenses that never expire and licenses without a key", async () => {
    const endless = await issueUntil("endless@example.org", NEVER_EXPIRES);
    const revoked = await issueUntil("endless@example.org", new Date("2027-01-01T00:00:00Z"));
    await revokeKey(createLicenseChanges(server.database), { uuid: parseId("key", revoked.id) ?? "" }, BY);
    expect(await renew(endless)).toEqual([]);
  });

  test("renewAccount() renews once in 24 hours, however often and from how many places it is called", async () => {
    const key = await issueUntil("repeated@example.org", new Date("2027-03-01T00:00:00Z"));
    const expired = await issueUntil("repeated@example.org", new Date("2026-11-21T00:00:00Z"));
    const uuid = parseId("usr", key.userId) ?? "";
    let sent: ReturnType<typeof renew>[] = [];
    await inTransaction(server.address, async (sql) => {
      await sql`select from licenses where account_id = ${uuid}::uuid for update`;
      sent = Array.from({ length: 3 }, () => renew(key));
      // All have begun, and wait for the same licenses.
      await until(async () => (await countWaiting(server.database)) === 3);
    });
    const renewed = (await Promise.all(sent)).map((changed) => changed.length);
    expect(renewed.toSorted()).toEqual([0, 0, 2]);
    const added = await issueUntil("repeated@example.org", new Date("2027-05-01T00:00:00Z"));
    const after = (hours: number) => ({ ...BY, now: new Date(NOW.getTime() + hours * 3_600_000) });
    expect((await findRenewable(server.database, uuid, after(1))).licenses).toHaveLength(1);
    // A license that was added since is renewed, and only that one.
    expect(await renewAccount(createLicenseChanges(server.database), uuid, after(1))).toMatchObject([
      { licenseUuid: added.licenseUuid },
    ]);
    expect(await renewAccount(createLicenseChanges(server.database), uuid, after(23.9))).toEqual([]);
    expect(await renewAccount(createLicenseChanges(server.database), uuid, after(24))).toMatchObject([
      { licenseUuid: key.licenseUuid, expiresAt: new Date("2029-03-01T00:00:00Z") },
      { licenseUuid: expired.licenseUuid },
    ]);
  });

  test("renewAccount() renews a license that has expired or got an earlier expiry in the last 24 hours", async () => {
    const setExpiry = ({ licenseUuid }: IssuedKey, expiresAt: Date) =>
      changeLicense(createLicenseChanges(server.database), { licenseUuid }, { ...BY, change: { expiresAt } });
    const email = "corrected@example.org";
    const expired = await issueUntil(email, new Date("2026-11-21T00:00:00Z"));
    const earlier = await issueUntil(email, new Date("2028-01-01T00:00:00Z"));
    const later = await issueUntil(email, new Date("2026-12-01T00:00:00Z"));
    await setExpiry(expired, new Date(NOW.getTime() + 1_000));
    await setExpiry(earlier, new Date("2027-01-01T00:00:00Z"));
    await setExpiry(later, new Date("2027-01-01T00:00:00Z"));

    const by = { ...BY, now: new Date(NOW.getTime() + 2_000) };
    const uuid = parseId("usr", expired.userId) ?? "";
    const renewed = await renewAccount(createLicenseChanges(server.database), uuid, by);
    expect(renewed.map(({ licenseUuid }) => licenseUuid)).toEqual([expired.licenseUuid, earlier.licenseUuid]);
    expect(await renewAccount(createLicenseChanges(server.database), uuid, by)).toEqual([]);
  });

  test("renewAccount() renews once, however many forms with the same version arrive at the same time", async () => {
    const key = await issueUntil("twice@example.org", new Date("2027-03-01T00:00:00Z"));
    await issueUntil("twice@example.org", new Date("2029-03-01T00:00:00Z"));
    await issueUntil("twice@example.org", NEVER_EXPIRES);
    const uuid = parseId("usr", key.userId) ?? "";
    const { licenses, version } = await findRenewable(server.database, uuid, BY);
    expect(licenses).toHaveLength(2);
    const sent = Array.from({ length: 8 }, () =>
      renewAccount(createLicenseChanges(server.database), uuid, { ...BY, version }),
    );
    const renewed = (await Promise.all(sent)).map((changed) => changed.length);
    expect(renewed.toSorted()).toEqual([0, 0, 0, 0, 0, 0, 0, 2]);
    const license = await findLicense(server.database, key.licenseUuid, BY);
    expect(license?.expiresAt).toEqual(new Date("2028-03-01T00:00:00Z"));
    const tomorrow = { now: new Date(NOW.getTime() + 86_400_000) };
    const after = await findRenewable(server.database, uuid, tomorrow);
    expect(after.licenses).toHaveLength(2);
    expect(after.version).not.toBe(version);
    const other = await issue(server.database, { email: "endless@example.org" });
    expect(await findRenewable(server.database, parseId("usr", other.userId) ?? "", BY)).toEqual({
      licenses: [],
      version: "",
    });
  });
});
