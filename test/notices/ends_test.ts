/** Notices of the ends of licenses and of their updates. */
import { describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { revokeKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { describeNotice, markDone, mute, remindLater, unmute } from "../../src/notices/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, issue, orThrow } from "../support/issue.ts";
import { useForEach } from "../support/use.ts";
import { audited, makeAt, notices, shown } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);

/** Issues a key, made long before its end. */
const issueUntil = (end: string, request: Parameters<typeof issue>[1] = {}) =>
  issue(server.database, { expiresAt: new Date(end), now: new Date("2026-01-01T00:00:00Z"), ...request });

/** Sets an end of a license, as a renewal does. */
const setEnd = (license: string, column: "expires_at" | "updates_until", end: string | null) =>
  server.database.query(
    (sql) => sql`
      update licenses set ${sql(column)} = ${end === null ? null : new Date(end)}::timestamptz where id = ${license}::uuid`,
  );

const END = "2027-02-28T23:59:59Z";

describe("a license that ends", () => {
  test("has a notice for the nearest of the days, and the earlier ones are replaced", async () => {
    await issueUntil(END, { email: "ada@example.org" });
    const at = (time: string) => makeAt(server.database, time);
    await at("2027-01-29T23:59:58Z");
    expect(await notices(server.database, END)).toEqual([]);
    await at("2027-01-29T23:59:59Z");
    await at("2027-02-10T00:00:00Z");
    const [first] = await notices(server.database, END);
    expect(first).toMatchObject({ kind: "license_end", stage: -30, email: "ada@example.org" });
    expect(first && describeNotice(first)).toMatch(
      /^The license of ada@example\.org \(svc_live_\S+\) ends within 30 days, on 2027-02-28\. Renew it/,
    );
    expect(first?.trueSince).toEqual(new Date("2027-01-29T23:59:59Z"));
    for (const time of ["2027-02-21T23:59:59Z", "2027-02-27T23:59:59Z", END, "2027-03-05T00:00:00Z"])
      await at(time);
    expect(await shown(server.database, END)).toEqual([
      "license_end -30 replaced",
      "license_end -7 replaced",
      "license_end -1 replaced",
      "license_end 0 open",
    ]);
    expect(await audited(server.database)).toEqual(
      [30, 7, 1, 0].map((days) => `notice.make license_end ${days}`),
    );
  });

  test("has only the nearest notice after a week without a service, and it says when it became true", async () => {
    await issueUntil(END);
    await makeAt(server.database, "2027-01-30T12:00:00Z");
    await makeAt(server.database, "2027-02-28T12:00:00Z");
    expect(await shown(server.database, END)).toEqual(["license_end -30 replaced", "license_end -1 open"]);
    const [open] = await notices(server.database, END);
    expect(open?.trueSince).toEqual(new Date("2027-02-27T23:59:59Z"));
    await makeAt(server.database, "2027-03-07T12:00:00Z");
    const [ended] = await notices(server.database, END);
    expect(ended).toMatchObject({ stage: 0, trueSince: new Date(END) });
  });

  test("has its notice withdrawn by a renewal, and another one for the new end", async () => {
    const { licenseUuid } = await issueUntil(END);
    await makeAt(server.database, "2027-02-22T00:00:00Z");
    await setEnd(licenseUuid, "expires_at", "2028-02-29T23:59:59Z");
    await makeAt(server.database, "2027-02-22T00:10:00Z");
    const withdrawn = { state: "withdrawn", withdrawnFor: "other_end", closedBy: "service:upkeep" };
    expect(await notices(server.database, END, {})).toMatchObject([withdrawn]);
    // The end on 29 February of a leap year is as any other.
    await makeAt(server.database, "2028-02-28T23:59:58Z");
    expect(await shown(server.database, END, { state: "open" })).toEqual(["license_end -7 open"]);
    await makeAt(server.database, "2028-02-28T23:59:59Z");
    await makeAt(server.database, "2028-02-29T23:59:58Z");
    expect(await shown(server.database, END, { state: "open" })).toEqual(["license_end -1 open"]);
    await makeAt(server.database, "2028-02-29T23:59:59Z");
    expect(await shown(server.database, END, { state: "open" })).toEqual(["license_end 0 open"]);
    expect((await audited(server.database)).slice(0, 2)).toEqual([
      "notice.make license_end 7",
      "notice.withdraw license_end 7 other_end",
    ]);
  });

  test("has its notice again if the renewal is undone", async () => {
    const { licenseUuid } = await issueUntil(END);
    await makeAt(server.database, "2027-02-22T00:00:00Z");
    await setEnd(licenseUuid, "expires_at", "2028-02-29T23:59:59Z");
    await makeAt(server.database, "2027-02-22T00:10:00Z");
    await setEnd(licenseUuid, "expires_at", END);
    await makeAt(server.database, "2027-02-22T00:20:00Z");
    expect(await notices(server.database, END, {})).toMatchObject([
      { state: "open", withdrawnFor: null, closedAt: null },
    ]);
    expect(await audited(server.database)).toHaveLength(3);
  });

  test("has no notice twice when the clock steps back a little", async () => {
    await issueUntil(END);
    for (const time of ["02-21T23:59:59", "02-21T23:00:00", "02-22T00:10:00"])
      await makeAt(server.database, `2027-${time}Z`);
    expect(await audited(server.database)).toEqual(["notice.make license_end 7"]);
  });

  test("loses the notices of a clock that was ahead, and has each when it is true", async () => {
    await issueUntil(END);
    await makeAt(server.database, "2027-02-22T12:00:00Z");
    await makeAt(server.database, "2027-03-02T12:00:00Z");
    const [false_] = await notices(server.database, END);
    expect(false_).toMatchObject({ stage: 0 });
    // An operator who believes it must hear of the true ones all the same.
    const by = { actor: ACTOR, now: new Date("2027-03-02T12:05:00Z") };
    orThrow(await markDone(server.database, parseId("ntc", false_?.id ?? "") ?? "", by));
    await makeAt(server.database, "2027-02-22T12:10:00Z");
    expect(await shown(server.database, END)).toEqual(["license_end -7 open", "license_end 0 withdrawn"]);
    expect(await notices(server.database, END, { state: "withdrawn" })).toMatchObject([
      { withdrawnFor: "ahead" },
    ]);
    for (const time of ["2027-02-28T12:00:00Z", "2027-03-01T00:00:00Z"]) await makeAt(server.database, time);
    expect(await audited(server.database)).toEqual([
      "notice.make license_end 7",
      "notice.make license_end 0",
      "notice.done license_end 0",
      "notice.withdraw license_end 0 ahead",
      "notice.make license_end 7",
      "notice.make license_end 1",
      "notice.make license_end 0",
    ]);
  });

  test("names the notice that it replaces in its row of the audit log", async () => {
    await issueUntil(END);
    await makeAt(server.database, "2027-02-01T12:00:00Z");
    const [first] = await notices(server.database, END);
    await makeAt(server.database, "2027-02-22T12:00:00Z");
    const rows = await server.database.query<{ replaces: string | null }>(
      (sql) => sql`select after->>'replaces' as replaces from audit where action = 'notice.make' order by id`,
    );
    expect(rows).toEqual([{ replaces: null }, { replaces: first?.id ?? "" }]);
  });

  test("has no notice without a key, and none for days before it was made", async () => {
    const changes = createLicenseChanges(server.database);
    const gone = await issueUntil(END);
    await issueUntil("2027-02-10T00:00:00Z", { now: new Date("2027-02-01T00:00:00Z") });
    await makeAt(server.database, "2027-02-01T12:00:00Z");
    expect(await shown(server.database, END)).toEqual(["license_end -30 open"]);
    const by = { actor: ACTOR, now: new Date("2027-02-02T00:00:00Z") };
    orThrow(await revokeKey(changes, { uuid: parseId("key", gone.id) ?? "" }, by));
    await makeAt(server.database, "2027-02-03T12:00:00Z");
    expect(await notices(server.database, END, { licenseUuid: gone.licenseUuid })).toMatchObject([
      { state: "withdrawn", withdrawnFor: "no_key" },
    ]);
    expect(await shown(server.database, END, { state: "open" })).toEqual(["license_end -7 open"]);
  });

  test("has no notice for days before its term began", async () => {
    const { licenseUuid } = await issueUntil(END);
    await server.database.query(
      (sql) => sql`
        update licenses set term_days = 14, latest_start = ${END}::timestamptz, started_at = '2027-02-14T23:59:59Z'
         where id = ${licenseUuid}::uuid`,
    );
    await makeAt(server.database, "2027-02-15T12:00:00Z");
    expect(await shown(server.database, END)).toEqual([]);
    await makeAt(server.database, "2027-02-22T12:00:00Z");
    expect(await shown(server.database, END)).toEqual(["license_end -7 open"]);
  });

  test("that was put off has a row of the audit log on its day, once, and only if it is still true", async () => {
    const [one, other] = [await issueUntil(END), await issueUntil(END)];
    await makeAt(server.database, "2027-02-01T12:00:00Z");
    const by = {
      actor: ACTOR,
      now: new Date("2027-02-01T13:00:00Z"),
      remindAt: new Date("2027-02-10T00:00:00Z"),
    };
    for (const { id } of await notices(server.database, "2027-02-01"))
      orThrow(await remindLater(server.database, parseId("ntc", id) ?? "", by));
    await setEnd(other.licenseUuid, "expires_at", "2028-02-28T23:59:59Z");
    for (const time of ["2027-02-09T23:59:59Z", "2027-02-10T00:00:00Z", "2027-02-10T00:10:00Z"])
      await makeAt(server.database, time);
    const rows = await server.database.query<{ action: string; before: unknown }>(
      (sql) =>
        sql`select action, before from audit where action in ('notice.due', 'notice.withdraw') order by id`,
    );
    expect(rows).toEqual([
      { action: "notice.withdraw", before: { state: "open" } },
      { action: "notice.due", before: { remind_at: expect.stringContaining("2027-02-10T00:00:00") } },
    ]);
    expect(await notices(server.database, "2027-02-10", { licenseUuid: one.licenseUuid })).toMatchObject([
      { state: "open", remindAt: null },
    ]);
  });

  test("keeps a notice that is done, and has the next one", async () => {
    await issueUntil(END);
    await makeAt(server.database, "2027-02-01T12:00:00Z");
    const [notice] = await notices(server.database, END);
    const by = { actor: ACTOR, now: new Date("2027-02-01T13:00:00Z") };
    orThrow(await markDone(server.database, parseId("ntc", notice?.id ?? "") ?? "", by));
    await makeAt(server.database, "2027-02-02T12:00:00Z");
    expect(await shown(server.database, END)).toEqual(["license_end -30 done"]);
    await makeAt(server.database, "2027-02-22T12:00:00Z");
    expect(await shown(server.database, END)).toEqual(["license_end -30 done", "license_end -7 open"]);
  });

  test("has no notice if it or its account is muted, and loses the one it has", async () => {
    const license = await issueUntil(END);
    const account = await issueUntil(END);
    const by = { actor: ACTOR, now: new Date("2027-02-01T00:00:00Z") };
    const things = [
      { licenseUuid: license.licenseUuid },
      { accountUuid: parseId("usr", account.userId) ?? "" },
    ];
    const turn = async (isOn: boolean) => {
      for (const thing of things) {
        const change = isOn ? unmute : mute;
        expect(await change(server.database, thing, by)).toEqual({ isChanged: true });
        expect(await change(server.database, thing, by)).toEqual({ isChanged: false });
      }
    };
    await turn(false);
    await makeAt(server.database, "2027-02-01T12:00:00Z");
    expect(await shown(server.database, END)).toEqual([]);
    await turn(true);
    await makeAt(server.database, "2027-02-01T12:00:00Z");
    await turn(false);
    await makeAt(server.database, "2027-02-01T12:10:00Z");
    const off = { state: "withdrawn", withdrawnFor: "muted" };
    expect(await notices(server.database, END, {})).toMatchObject([off, off]);
  });

  test("has no notice if it ended over 30 days ago, and loses the one it has", async () => {
    await issueUntil(END);
    await makeAt(server.database, "2027-03-31T12:00:00Z");
    expect(await shown(server.database, END)).toEqual([]);
    await makeAt(server.database, "2027-03-30T12:00:00Z");
    await makeAt(server.database, "2027-03-30T23:59:59Z");
    expect(await shown(server.database, END)).toEqual(["license_end 0 open"]);
    for (const time of ["2027-03-31T00:00:00Z", "2027-03-31T00:10:00Z"]) await makeAt(server.database, time);
    expect(await notices(server.database, END, {})).toMatchObject([
      { state: "withdrawn", withdrawnFor: "long_ended" },
    ]);
    expect(await audited(server.database)).toEqual([
      "notice.make license_end 0",
      "notice.withdraw license_end 0 long_ended",
    ]);
  });
});

describe("updates that end", () => {
  test("have notices of their own, unless the license ends as early", async () => {
    const early = await issueUntil("2028-01-31T23:59:59Z");
    const late = await issueUntil("2028-01-31T23:59:59Z");
    await setEnd(early.licenseUuid, "updates_until", END);
    await setEnd(late.licenseUuid, "updates_until", "2028-01-31T23:59:59Z");
    await makeAt(server.database, "2027-02-25T12:00:00Z");
    expect(await shown(server.database, END)).toEqual(["updates_end -7 open"]);
    await makeAt(server.database, "2028-01-30T12:00:00Z");
    const open = await notices(server.database, END);
    // An end of updates that lies too far back has no notice of its end.
    expect(open.map(({ kind, stage }) => [kind, stage])).toEqual([
      ["license_end", -7],
      ["license_end", -7],
    ]);
    expect(await notices(server.database, END, { kind: "updates_end" })).toMatchObject([
      { stage: -7, state: "withdrawn", withdrawnFor: "long_ended" },
    ]);
  });
});
