/** Notices of keys: used again after a silence, used after a rotation, and refused often. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { createLastUse } from "../../src/licensing/keys/last_use.ts";
import { revokeKey, rotateKey } from "../../src/licensing/keys/mod.ts";
import { createRefusalCounts } from "../../src/licensing/keys/refusal_counts.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { describeNotice, markDone } from "../../src/notices/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, BRAND, issue, orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { keyRecord } from "../support/records.ts";
import { useForEach } from "../support/use.ts";
import { audited, makeAt, notices, shown } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);
const clockAt = (at: string) => createTestClock(at, { stands: true });

const issueOld = () =>
  issue(server.database, { email: "ada@example.org", now: new Date("2026-01-01T00:00:00Z") });

/** Uses a key, as a request does whose use is written then. */
async function use(uuid: string, at: string): Promise<void> {
  const lastUse = createLastUse(server.database, clockAt(at));
  lastUse.note(keyRecord({ uuid }));
  await lastUse.flush();
}

const revoke = async (uuid: string, at: string) =>
  orThrow(
    await revokeKey(createLicenseChanges(server.database), { uuid }, { actor: ACTOR, now: new Date(at) }),
  );

describe("a key that is used again after 90 days", () => {
  test("has a notice, which says how long it was silent, and not after a day less", async () => {
    const uuid = uuidOf(await issueOld());
    // The first use is none again.
    await use(uuid, "2026-05-01T10:00:00Z");
    await use(uuid, "2026-07-30T09:59:59Z");
    await makeAt(server.database, "2026-07-30T10:10:00Z");
    expect(await shown(server.database, "2026-07-30")).toEqual([]);
    await use(uuid, "2026-10-28T09:59:59Z");
    await use(uuid, "2026-10-28T10:01:00Z");
    await makeAt(server.database, "2026-11-02T10:10:00Z");
    const [notice] = await notices(server.database, "2026-11-02");
    expect(notice).toMatchObject({ kind: "silent_key_used", trueSince: new Date("2026-10-28T09:59:59Z") });
    expect(notice && describeNotice(notice)).toMatch(
      /^The key of ada@example\.org \(svc_live_\S+\) was used at 2026-10-28 09:59 UTC; the use before was at 2026-07-30 09:59 UTC\. Ask/,
    );
    await revoke(uuid, "2026-11-03T00:00:00Z");
    await makeAt(server.database, "2026-11-03T00:10:00Z");
    expect(await audited(server.database)).toEqual([
      "notice.make silent_key_used",
      "notice.withdraw silent_key_used revoked",
    ]);
  });

  test("has another notice after another silence", async () => {
    const uuid = uuidOf(await issueOld());
    for (const at of ["2026-02-01", "2026-06-01", "2026-10-01"]) {
      await use(uuid, `${at}T00:00:00Z`);
      await makeAt(server.database, `${at}T00:10:00Z`);
    }
    // The earlier use lies more than 30 days back, so it tells nothing any more.
    expect(await shown(server.database, "2026-10-01")).toEqual([
      "silent_key_used 0 withdrawn",
      "silent_key_used 0 open",
    ]);
    expect((await audited(server.database))[1]).toBe("notice.make silent_key_used");
    expect((await audited(server.database))[2]).toBe("notice.withdraw silent_key_used long_ago");
  });

  test("has no notice of a use that a clock stored which was ahead", async () => {
    const uuid = uuidOf(await issueOld());
    await use(uuid, "2026-02-01T00:00:00Z");
    await use(uuid, "2027-02-01T00:00:00Z");
    await makeAt(server.database, "2026-02-01T10:00:00Z");
    await use(uuid, "2026-02-01T12:00:00Z");
    // A year later the stored time has passed, and it is still none of a use.
    await makeAt(server.database, "2027-02-01T10:00:00Z");
    expect(await audited(server.database)).toEqual([]);
  });
});

describe("a key that was rotated", () => {
  const ROTATED = "2026-11-20T12:00:00Z";
  async function rotate(overlapMs: number) {
    const uuid = uuidOf(await issueOld());
    const by = { brand: BRAND, actor: ACTOR, now: new Date(ROTATED) };
    orThrow(await rotateKey(createLicenseChanges(server.database), { uuid, mode: "live", overlapMs }, by));
    return uuid;
  }

  test("has a notice if it is used an hour later, and loses it when it is revoked", async () => {
    const uuid = await rotate(7 * 86_400_000);
    await use(uuid, "2026-11-20T12:59:00Z");
    await makeAt(server.database, "2026-11-20T13:00:00Z");
    expect(await shown(server.database, ROTATED)).toEqual([]);
    await use(uuid, "2026-11-21T08:00:00Z");
    await makeAt(server.database, "2026-11-21T08:10:00Z");
    const [notice] = await notices(server.database, ROTATED);
    expect(notice && describeNotice(notice)).toMatch(
      /was still used at 2026-11-21 08:00 UTC; it is refused from 2026-11-27 12:00 UTC on\. Tell the customer/,
    );
    await use(uuid, "2026-11-22T08:00:00Z");
    await makeAt(server.database, "2026-11-22T08:10:00Z");
    expect(await shown(server.database, ROTATED)).toEqual(["rotated_key_used 0 open"]);
    await revoke(uuid, "2026-11-23T00:00:00Z");
    await makeAt(server.database, "2026-11-23T00:10:00Z");
    expect(await shown(server.database, ROTATED)).toEqual(["rotated_key_used 0 withdrawn"]);
  });

  test("has a notice if it is refused after its end", async () => {
    const uuid = await rotate(0);
    const refusals = createRefusalCounts({
      database: server.database,
      clock: clockAt("2026-11-21T08:00:00Z"),
    });
    refusals.note({ uuid }, { code: "KEY_EXPIRED", reason: undefined }, "validate");
    await refusals.flush();
    await makeAt(server.database, "2026-11-21T08:10:00Z");
    const [notice] = await notices(server.database, ROTATED);
    expect(notice && describeNotice(notice)).toContain("it has been refused since 2026-11-20 12:00 UTC");
  });

  test("loses its notice when it was neither used nor refused for 7 days", async () => {
    const uuid = await rotate(7 * 86_400_000);
    await use(uuid, "2026-11-27T08:00:00Z");
    await makeAt(server.database, "2026-11-27T08:10:00Z");
    const refusals = createRefusalCounts({
      database: server.database,
      clock: clockAt("2026-11-28T08:00:00Z"),
    });
    refusals.note({ uuid }, { code: "KEY_EXPIRED", reason: undefined }, "validate");
    await refusals.flush();
    await makeAt(server.database, "2026-12-05T08:00:00Z");
    expect(await shown(server.database, ROTATED)).toEqual(["rotated_key_used 0 open"]);
    await makeAt(server.database, "2026-12-05T08:00:01Z");
    expect(await notices(server.database, ROTATED, {})).toMatchObject([
      { state: "withdrawn", withdrawnFor: "unused" },
    ]);
    await makeAt(server.database, "2026-12-05T08:10:01Z");
    expect(await audited(server.database)).toHaveLength(2);
  });

  test("has no notice if its end lies more than 30 days back", async () => {
    const uuid = await rotate(7 * 86_400_000);
    await use(uuid, "2026-11-21T08:00:00Z");
    await makeAt(server.database, "2026-12-27T12:00:01Z");
    expect(await shown(server.database, ROTATED)).toEqual([]);
  });
});

describe("a key that is refused often", () => {
  /** Refuses a key so many times, as requests do. */
  async function refuse(uuid: string, times: number, at: string): Promise<void> {
    const refusals = createRefusalCounts({ database: server.database, clock: clockAt(at) });
    for (let n = 0; n < times; n++)
      refusals.note(
        { uuid },
        { code: n % 3 === 0 ? "NOT_FOUND" : "QUOTA_EXCEEDED", reason: undefined },
        "validate",
      );
    await refusals.flush();
  }
  const settings = { refusalsAnHour: 9 };

  test("has one notice, of the first hour with more refusals than the setting, while it is refused", async () => {
    const uuid = uuidOf(await issueOld());
    await refuse(uuid, 9, "2026-11-20T08:10:00Z");
    await makeAt(server.database, "2026-11-20T09:00:00Z", settings);
    expect(await shown(server.database, "2026-11-20")).toEqual([]);
    await refuse(uuid, 8, "2026-11-20T09:10:00Z");
    await refuse(uuid, 2, "2026-11-20T09:59:59Z");
    await refuse(uuid, 20, "2026-11-20T10:10:00Z");
    await makeAt(server.database, "2026-11-20T11:00:00Z", settings);
    await refuse(uuid, 20, "2026-11-20T12:10:00Z");
    await makeAt(server.database, "2026-11-20T13:00:00Z", settings);
    const found = await notices(server.database, "2026-11-20");
    expect(found).toMatchObject([{ kind: "refusals", trueSince: new Date("2026-11-20T09:00:00Z") }]);
    expect(found[0] && describeNotice(found[0])).toContain(
      "was refused 10 times in the hour from 2026-11-20 09:00 UTC on, mostly with QUOTA_EXCEEDED",
    );
    await refuse(uuid, 20, "2026-11-21T00:00:00Z");
    await makeAt(server.database, "2026-11-21T00:10:00Z", settings);
    expect(await shown(server.database, "2026-11-21")).toEqual(["refusals 0 open"]);
  });

  test("has another notice on the day after its notice was marked as done, and only one", async () => {
    const uuid = uuidOf(await issueOld());
    await refuse(uuid, 20, "2026-11-20T20:10:00Z");
    await makeAt(server.database, "2026-11-20T21:00:00Z", settings);
    const [first] = await notices(server.database, "2026-11-20");
    for (const at of ["2026-11-21T20:10:00Z", "2026-11-22T00:10:00Z"]) await refuse(uuid, 20, at);
    const by = { actor: ACTOR, now: new Date("2026-11-22T01:00:00Z") };
    orThrow(await markDone(server.database, parseId("ntc", first?.id ?? "") ?? "", by));
    // These hours, of two days, were before the mark.
    await makeAt(server.database, "2026-11-22T01:10:00Z", settings);
    await refuse(uuid, 20, "2026-11-22T23:10:00Z");
    await makeAt(server.database, "2026-11-22T23:20:00Z", settings);
    expect(await shown(server.database, "2026-11-22")).toEqual(["refusals 0 done"]);
    await refuse(uuid, 20, "2026-11-23T00:10:00Z");
    await makeAt(server.database, "2026-11-23T00:20:00Z", settings);
    expect(await shown(server.database, "2026-11-23")).toEqual(["refusals 0 done", "refusals 0 open"]);
  });

  test("has one notice, of the last day, if the first look finds hours of two days", async () => {
    const uuid = uuidOf(await issueOld());
    for (const at of ["2026-11-21T20:10:00Z", "2026-11-22T00:10:00Z"]) await refuse(uuid, 20, at);
    await makeAt(server.database, "2026-11-22T01:10:00Z", settings);
    expect(await notices(server.database, "2026-11-22", {})).toMatchObject([
      { state: "open", trueSince: new Date("2026-11-22T00:00:00Z") },
    ]);
  });

  test("keeps its notice when another process has a higher number", async () => {
    const uuid = uuidOf(await issueOld());
    await refuse(uuid, 10, "2026-11-20T09:10:00Z");
    await makeAt(server.database, "2026-11-20T10:00:00Z", settings);
    await makeAt(server.database, "2026-11-20T10:10:00Z", { refusalsAnHour: 1_000 });
    expect(await audited(server.database)).toEqual(["notice.make refusals"]);
  });

  test("loses its notice when it was not refused so often for a day, or is revoked", async () => {
    const [one, other] = [uuidOf(await issueOld()), uuidOf(await issueOld())];
    await refuse(one, 10, "2026-11-20T09:10:00Z");
    await refuse(other, 10, "2026-11-20T09:10:00Z");
    await makeAt(server.database, "2026-11-20T10:00:00Z", settings);
    await revoke(other, "2026-11-20T10:00:00Z");
    await makeAt(server.database, "2026-11-21T08:59:59Z", settings);
    expect(await audited(server.database)).toEqual([
      "notice.make refusals",
      "notice.make refusals",
      "notice.withdraw refusals revoked",
    ]);
    await makeAt(server.database, "2026-11-21T09:00:00Z", settings);
    expect((await audited(server.database)).at(-1)).toBe("notice.withdraw refusals stopped");
  });

  test("has its counts for a day", async () => {
    const uuid = uuidOf(await issueOld());
    const count = async () => {
      const [row] = await server.database.query<{ count: number }>(
        (sql) => sql`select sum(count)::integer as count from refused_hours`,
      );
      return row?.count;
    };
    await refuse(uuid, 5, "2026-11-20T09:10:00Z");
    await refuse(uuid, 3, "2026-11-21T09:50:00Z");
    expect(await count()).toBe(8);
    await refuse(uuid, 1, "2026-11-21T10:00:01Z");
    expect(await count()).toBe(4);
  });
});
