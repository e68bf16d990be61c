import { describe, expect, test } from "bun:test";
import { DAY_MS, endOfDay, monthOf, NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { openSession } from "../../src/database/mod.ts";
import {
  findKey,
  generateApiKey,
  type IssuedKey,
  type IssueRequest,
  importKeys,
  issueKey,
  parseImportLine,
} from "../../src/licensing/keys/mod.ts";
import {
  changedValues,
  changeLicense,
  createLicenseChanges,
  describeTerm,
  effectsOf,
  findRenewable,
  type LicenseChange,
  oneYearAfter,
  planEnd,
  renewAccount,
} from "../../src/licensing/mod.ts";
import { importedUsageCte } from "../../src/usage/mod.ts";
import { ACTOR, BRAND, countRows, issue, NOW, orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();

const START = new Date("2027-01-31T23:59:59Z");
const TERM = { termDays: 30, latestStart: START };
const END = new Date(START.getTime() + 30 * DAY_MS);
const WAITING = { ...TERM, startedAt: null };
const BY = { actor: ACTOR, now: NOW };

const issueWaiting = (request: Partial<IssueRequest> = {}) =>
  issue(server.database, { term: TERM, expiresAt: END, ...request });
const find = async (key: IssuedKey) => await findKey(server.database, { uuid: uuidOf(key) }, { now: NOW });
const change = (key: IssuedKey, change: LicenseChange) =>
  changeLicense(createLicenseChanges(server.database), { keyUuid: uuidOf(key) }, { ...BY, change });

describe("planEnd()", () => {
  const plan = (requested: Parameters<typeof planEnd>[0]) =>
    planEnd(requested, { what: "issue key", now: NOW, usual: oneYearAfter(NOW) });

  test("gives a license the expiry of the request, or the usual one", () => {
    expect(plan({})).toEqual({ expiresAt: oneYearAfter(NOW) });
    expect(plan({ expiresAt: START })).toEqual({ expiresAt: START });
    expect(plan({ startsOnFirstUse: false })).toEqual({ expiresAt: oneYearAfter(NOW) });
  });

  test("lets a term end so many days after its latest start, which is the usual end if none is given", () => {
    expect(plan({ startsOnFirstUse: true, ...TERM })).toEqual({ expiresAt: END, term: TERM });
    const latestStart = oneYearAfter(NOW);
    expect(plan({ startsOnFirstUse: true, termDays: 1 })).toEqual({
      expiresAt: new Date(latestStart.getTime() + DAY_MS),
      term: { termDays: 1, latestStart },
    });
  });

  const CONTRADICTIONS: readonly (readonly [field: string, requested: Parameters<typeof planEnd>[0]])[] = [
    ["starts_on_first_use", { termDays: 30 }],
    ["starts_on_first_use", { startsOnFirstUse: false, latestStart: START }],
    ["term_days", { startsOnFirstUse: true }],
    ["expires_at", { startsOnFirstUse: true, termDays: 30, expiresAt: END }],
    ["latest_start", { startsOnFirstUse: true, termDays: 30, latestStart: NOW }],
    ["latest_start", { startsOnFirstUse: true, termDays: 30, latestStart: NEVER_EXPIRES }],
  ];
  test.each(CONTRADICTIONS)("refuses %s in %j", (field, requested) => {
    const refused = plan(requested);
    expect(refused).toMatchObject({ code: "INVALID_REQUEST", fields: [{ field }] });
  });
});

describe("a license that starts on its first use", () => {
  test("waits after it was issued, and the log has its term", async () => {
    const key = await issueWaiting();
    expect(await find(key)).toMatchObject({ ...WAITING, state: "active", expiresAt: END, obstacles: [] });
    const [row] = await server.database.query<{ after: object }>(
      (sql) => sql`select after from audit where license_id = ${key.licenseUuid}::uuid`,
    );
    expect(row?.after).toMatchObject({ term_days: 30, latest_start: "2027-01-31T23:59:59+00:00" });
    expect(row?.after).not.toHaveProperty("started_at");
  });

  test("gets another expiry in place of its term, which the change says", async () => {
    const key = await issueWaiting();
    const changed = orThrow(await change(key, { expiresAt: NEVER_EXPIRES }));
    expect(effectsOf(changed.before, changed.after)).toMatchObject([
      { what: "term", from: "30 days from its first use, at the latest from 2027-01-31", to: "none" },
      { what: "expiry", to: "never" },
    ]);
    expect(await find(key)).toMatchObject({
      ...{ termDays: null, latestStart: null, startedAt: null, expiresAt: NEVER_EXPIRES },
    });
  });

  test("shows before such a change that the expiry takes the place of its term", async () => {
    const key = await find(await issueWaiting());
    if (key === undefined) throw new Error("There is a key");
    const before = { ...key, expiresAt: key.licenseExpiresAt };
    const after = changedValues(before, { expiresAt: NEVER_EXPIRES });
    expect(effectsOf(before, after)).toMatchObject([
      { what: "term", to: "none" },
      { what: "expiry", to: "never" },
    ]);
    expect(effectsOf(before, changedValues(before, { expiresAt: END }))).toEqual([]);
    expect(effectsOf(before, changedValues(before, { maxOfflineDays: 1 }))).toMatchObject([
      { what: "offline days" },
    ]);
  });

  test("keeps its term if it gets the expiry that it has", async () => {
    const key = await issueWaiting();
    expect(await change(key, { expiresAt: END })).toMatchObject({ isChanged: false });
    expect(await change(key, { expiresAt: END, tier: "commercial" })).toMatchObject({ isChanged: true });
    expect(await find(key)).toMatchObject({ ...WAITING, expiresAt: END });
  });

  test("keeps its term if something else changes, and refuses an earlier end", async () => {
    const key = await issueWaiting();
    orThrow(await change(key, { tier: "commercial" }));
    expect(await change(key, { expiresAt: START })).toMatchObject({ code: "CONFLICT" });
    expect(await find(key)).toMatchObject({ ...WAITING, tier: "commercial", expiresAt: END });
  });

  test("keeps its term in the log after its start, when its expiry changes", async () => {
    const key = await issueWaiting();
    await server.database.query(
      (sql) => sql`
        update licenses set started_at = ${NOW}::timestamptz where id = ${key.licenseUuid}::uuid`,
    );
    const changed = orThrow(await change(key, { expiresAt: NEVER_EXPIRES }));
    expect(effectsOf(changed.before, changed.after).map(({ what }) => what)).toEqual(["expiry"]);
    expect(await find(key)).toMatchObject({ ...TERM, startedAt: NOW, expiresAt: NEVER_EXPIRES });
  });

  test("is left out of a renewal of its account", async () => {
    const email = "waiting@example.org";
    const waiting = await issueWaiting({ email });
    const other = await issue(server.database, { email, expiresAt: END });
    const accountUuid = parseId("usr", waiting.userId) ?? "";
    const foreseen = await findRenewable(server.database, accountUuid, BY);
    const renewed = await renewAccount(createLicenseChanges(server.database), accountUuid, BY);
    for (const licenses of [foreseen.licenses, renewed])
      expect(licenses.map(({ licenseUuid }) => licenseUuid)).toEqual([other.licenseUuid]);
    expect(await find(waiting)).toMatchObject({ ...WAITING, expiresAt: END });
  });

  test("gets a year from now by a renewal of its account, and no term, if it has expired without a use", async () => {
    const term = { termDays: 1, latestStart: new Date(NOW.getTime() - 10 * DAY_MS) };
    const key = await issueWaiting();
    await server.database.query(
      (sql) => sql`
        update licenses set latest_start = ${term.latestStart}::timestamptz, term_days = 1,
                            expires_at = ${new Date(NOW.getTime() - 9 * DAY_MS)}::timestamptz
         where id = ${key.licenseUuid}::uuid`,
    );
    const accountUuid = parseId("usr", key.userId) ?? "";
    expect(await renewAccount(createLicenseChanges(server.database), accountUuid, BY)).toHaveLength(1);
    expect(await find(key)).toMatchObject({
      ...{ termDays: null, latestStart: null, startedAt: null },
      expiresAt: oneYearAfter(NOW),
    });
  });

  test("comes from a restricted actor only if it ends within a year, and without allowances of its own", async () => {
    const restriction = { tiers: ["research"] } as const;
    const termOf = (expiresAt: Date): IssueRequest => ({
      ...{ email: "by-token@example.org", now: NOW, expiresAt },
      tier: "research",
      mode: "live",
      term: { termDays: 1, latestStart: new Date(expiresAt.getTime() - DAY_MS) },
    });
    const issueBy = (request: IssueRequest) =>
      issueKey(server.database, request, { brand: BRAND, actor: ACTOR, restriction });
    const latest = endOfDay(oneYearAfter(NOW));
    const before = await countRows(server.database);
    expect(await issueBy(termOf(new Date(latest.getTime() + 1_000)))).toMatchObject({ code: "NOT_ALLOWED" });
    for (const own of [{ selfReleases: 0 }, { showsMachines: false }, { maxOfflineDays: 0 }])
      expect(await issueBy({ ...termOf(latest), ...own })).toMatchObject({ code: "NOT_ALLOWED" });
    expect(await countRows(server.database)).toEqual(before);
    expect(isRefusal(await issueBy(termOf(latest)))).toBe(false);
  });

  test("comes from an import, with the usual latest start", async () => {
    const { apiKey } = generateApiKey(BRAND, "live");
    const line = { api_key: apiKey, email: "imported@example.org", tier: "free" };
    const read = (more: object) => parseImportLine(JSON.stringify({ ...line, ...more }), BRAND);
    expect(read({ term_days: 30 })).toMatchObject({ code: "INVALID_REQUEST" });
    const own = { self_releases: 2, shows_machines: true, max_offline_days: 14 };
    const key = orThrow(read({ starts_on_first_use: true, term_days: 30, ...own }));
    const usageCte = (sql: Parameters<typeof importedUsageCte>[0]) =>
      importedUsageCte(sql, monthOf(NOW.getTime()));
    await using session = openSession(server.address, { statementTimeoutMs: 20_000 });
    orThrow(await importKeys(session, [{ key, line: 1 }], { ...BY, usageCte }));
    const latestStart = oneYearAfter(NOW);
    expect(await findKey(server.database, { hash: key.hash }, { now: NOW })).toMatchObject({
      ...{ termDays: 30, latestStart, startedAt: null },
      ...{ selfReleases: 2, showsMachines: true, maxOfflineDays: 14 },
      expiresAt: new Date(latestStart.getTime() + 30 * DAY_MS),
    });
  });
});

describe("effectsOf() of what a license allows its clients", () => {
  const lossesOf = async (steps: readonly LicenseChange[]) => {
    const key = await issue(server.database, { maxMachines: 5 });
    const losses: (string | undefined)[] = [];
    for (const step of steps) {
      const { before, after } = orThrow(await change(key, step));
      losses.push(...effectsOf(before, after).map(({ from, to, loss }) => `${from} → ${to}: ${loss}`));
    }
    return losses;
  };

  test("says what other seat minutes mean for them, unless machines were not counted", async () => {
    const uncounted = await issue(server.database);
    const seats = orThrow(await change(uncounted, { maxMachines: 5, seatMinutes: 15 }));
    expect(effectsOf(seats.before, seats.after).map(({ what }) => what)).toEqual(["machines"]);
    const losses = await lossesOf([{ seatMinutes: 1_440 }, { seatMinutes: 1_441 }]);
    expect(losses).toEqual([
      "5 node-locked machines → 5 floating seats of 1,440 minutes: undefined",
      "3 in 30 days (usual) → ten times the places in a day (usual): undefined",
      "yes (usual) → no (usual): no names of machines",
      "5 floating seats of 1,440 minutes → 5 node-locked machines that check in within 1,441 minutes: undefined",
      "ten times the places in a day (usual) → 3 in 30 days (usual): undefined",
      "no (usual) → yes (usual): undefined",
    ]);
  });

  test("names fewer releases and offline days, and hidden names, as a loss", async () => {
    expect(
      await lossesOf([
        { selfReleases: 5 },
        { selfReleases: 2 },
        { selfReleases: null },
        { selfReleases: 0 },
        { showsMachines: true },
        { showsMachines: false },
        { maxOfflineDays: 1_000 },
        { maxOfflineDays: 14 },
        { maxOfflineDays: null },
        { maxOfflineDays: 0 },
      ]),
    ).toEqual([
      "3 in 30 days (usual) → 5 in 30 days: undefined",
      "5 in 30 days → 2 in 30 days: fewer releases by clients",
      "2 in 30 days → 3 in 30 days (usual): undefined",
      "3 in 30 days (usual) → 0 in 30 days: fewer releases by clients",
      "yes (usual) → yes: undefined",
      "yes → no: no names of machines",
      "as the tier says → 1,000: undefined",
      "1,000 → 14: fewer offline days",
      "14 → as the tier says: undefined",
      "as the tier says → 0: fewer offline days",
    ]);
  });
});

test("describeTerm() says how long a term is, and when it begins or began", () => {
  expect(describeTerm(WAITING, NOW)).toBe(describeTerm(WAITING));
  expect(describeTerm(WAITING, START)).toBe("30 days from 2027-01-31T23:59:59Z, without a use");
  expect(describeTerm(WAITING)).toBe("30 days from its first use, at the latest from 2027-01-31");
  expect(describeTerm({ ...TERM, termDays: 1, startedAt: NOW })).toBe("1 day from 2026-11-20T12:00:00Z");
  expect(describeTerm({ termDays: null, latestStart: null, startedAt: null })).toBe("none");
});
