/** The rows that the page Health makes from findings, expiries and processes. */
import { describe, expect, test } from "bun:test";
import { listExpiries, summarize } from "../../src/admin/health/health_rows.ts";
import type { HealthMark } from "../../src/admin/health/marks.ts";
import { describeSlow, findingsOf, pathToSlow } from "../../src/admin/health/slow.ts";
import type { ServingProcess } from "../../src/database/processes/mod.ts";
import type { Finding } from "../../src/installation/doctor/mod.ts";
import type { ListedToken } from "../../src/operators/mod.ts";
import type { Unusual } from "../../src/usage/activity/mod.ts";
import type { SlowEndpoint } from "../../src/usage/latency/mod.ts";
import { NOW } from "../support/issue.ts";

const DAY_MS = 86_400_000;
const inDays = (days: number) => new Date(NOW.getTime() + days * DAY_MS);

function token(name: string, days: number | null, state: ListedToken["state"] = "active"): ListedToken {
  return {
    name,
    state,
    scopes: ["keys:read"],
    restriction: {},
    sources: undefined,
    createdBy: "command:olga",
    createdAt: NOW,
    renewedAt: NOW,
    expiresAt: days === null ? null : inDays(days),
    lastUsedAt: null,
  };
}

function process(isLost: boolean): ServingProcess {
  const seenSecondsAgo = isLost ? 400 : 20;
  const times = { startedAt: NOW, seenSecondsAgo };
  return {
    uuid: crypto.randomUUID(),
    version: "0.2.0",
    host: "a",
    address: "http://a:1",
    rateLimits: "process",
    p50Ms: null,
    p95Ms: null,
    isLost,
    ...times,
  };
}

const finding = (name: string, state: Finding["state"]): Finding => ({ name, state, message: "…" });

describe("listExpiries()", () => {
  test("lists the certificate, then tokens, the first expiry first", () => {
    const tokens = [
      token("late", 100),
      token("none", null),
      token("gone", -1, "expired"),
      token("long-gone", -31, "expired"),
      token("revoked", 3, "revoked"),
      token("soon", 13.9),
      token("not-yet", 14),
    ];
    const shown = listExpiries(inDays(40), tokens, NOW).map(({ what, state }) => `${what}: ${state}`);
    expect(shown).toEqual([
      "certificate: good",
      "token gone: expired",
      "token soon: soon",
      "token not-yet: good",
      "token late: good",
    ]);
    expect(listExpiries(undefined, [], NOW)).toEqual([]);
  });

  test("lists at most fifty tokens", () => {
    const tokens = Array.from({ length: 200 }, (_, n) => token(`t${n}`, 200 - n));
    const shown = listExpiries(undefined, tokens, NOW);
    expect(shown).toHaveLength(50);
    expect(shown[0]?.what).toBe("token t199");
  });
});

const GOOD = { findings: [], expiries: [], processes: [], unusual: [], slow: [], now: NOW };

describe("summarize()", () => {
  test("says that everything works, and how many processes serve", () => {
    const good = [finding("disk", "ok"), finding("writes", "skip")];
    const valid = listExpiries(inDays(100), [], NOW);
    expect(summarize({ ...GOOD, findings: good, expiries: valid, processes: [process(false)] })).toEqual({
      tone: "good",
      sentence: "Everything works. 1 process serves this database.",
    });
    expect(
      summarize({ ...GOOD, findings: good, processes: [process(false), process(false)] }).sentence,
    ).toEndWith("2 processes serve this database.");
  });

  test("names what is wrong before what needs attention", () => {
    const findings = [finding("disk", "warn"), finding("writes", "fail"), finding("schema", "ok")];
    const expiries = listExpiries(inDays(-1), [token("shop", 2)], NOW);
    expect(
      summarize({ ...GOOD, findings, expiries, processes: [process(true), process(true), process(false)] }),
    ).toEqual({
      tone: "bad",
      sentence:
        "Wrong: writes, certificate has expired. " +
        "Needs attention: disk, token shop expires soon, 2 processes are lost.",
    });
    expect(summarize({ ...GOOD, processes: [process(true)] })).toEqual({
      tone: "warning",
      sentence: "Needs attention: a process is lost.",
    });
  });

  test("names unusual hours in place of saying that everything works", () => {
    const at = (hour: number, name: string, kind: Unusual["kind"]): Unusual => ({
      ...{ at: new Date(Date.UTC(2026, 10, 20, hour)), name, kind },
      ...{ count: 1_549, lowest: 0, highest: 3 },
    });
    const unusual = [at(9, "INVALID_KEY", "high"), at(8, "INVALID_KEY", "high"), at(3, "OK", "low")];
    expect(summarize({ ...GOOD, unusual })).toEqual({
      tone: "warning",
      sentence:
        "Needs attention: unusually many answers “unknown, suspended or revoked key” in 2 hours, the last at 09:00, " +
        "unusually few answers “without an error” at 03:00.",
    });
    const more = ["NOT_FOUND", "FORBIDDEN", "CONFLICT", "TIMEOUT"];
    const many = [...unusual, ...more.map((name) => at(2, name, "high"))];
    expect(summarize({ ...GOOD, unusual: many }).sentence).toMatch(
      /at 03:00, .* at 02:00, 3 other kinds of unusual answers\.$/,
    );
    const night = [at(-2, "OK", "low"), at(-1, "NOT_FOUND", "high"), at(-3, "NOT_FOUND", "high")];
    expect(summarize({ ...GOOD, unusual: night }).sentence).toMatch(
      /“without an error” yesterday at 22:00, .* in 2 hours, the last yesterday at 23:00\.$/,
    );
  });
});

describe("describeSlow()", () => {
  const now = new Date("2026-11-22T14:07:00Z");
  const slow = (endpoint: string, since: string): SlowEndpoint => ({
    ...{ endpoint, since: new Date(since) },
    ...{ share: "95 %", nowMs: 240, beforeMs: 28 },
  });
  const mark = (at: string, says: string): HealthMark => ({ at: new Date(at), kind: "process_start", says });
  const EVENTS = slow("analytics", "2026-11-22T13:20:00Z");
  const says = (...marks: HealthMark[]) => describeSlow([EVENTS], marks, now)[0]?.says;

  test("tells since when and from what to what, in the line of the page, with a link and a finding", () => {
    const found = describeSlow([EVENTS, slow("models", "2026-11-21T23:50:00Z")], [], now);
    expect(summarize({ ...GOOD, slow: found })).toEqual({
      tone: "warning",
      sentence:
        "Needs attention: events have taken 8.6 times as long since 13:20 (95 % within 240 ms, before within 28 ms), " +
        "lists of models have taken 8.6 times as long since 23:50 of 2026-11-21 (95 % within 240 ms, before within 28 ms).",
    });
    expect(pathToSlow(found)).toBe("/console/health/latency");
    expect(pathToSlow(found.slice(0, 1))).toBe("/console/health/latency?endpoint=analytics");
    expect(pathToSlow([])).toBeUndefined();
    expect(findingsOf(found)[0]).toMatchObject({
      ...{ name: "latency", state: "warn", message: found[0]?.says },
    });
  });

  test("names the nearest of what happened within ten minutes of the first slow five minutes", () => {
    const [start, backup] = [
      mark("2026-11-22T13:19:00Z", "a process of version 0.9.0 was started"),
      mark("2026-11-22T13:14:00Z", "a backup was taken"),
    ];
    expect(says(backup, start)).toEndWith("28 ms; at 13:19 a process of version 0.9.0 was started)");
    const deploy: HealthMark = { ...mark("2026-11-22T13:11:00Z", "another version"), kind: "deploy" };
    expect(says(deploy, start)).toEndWith("; at 13:11 another version)");
    for (const at of ["13:10:00", "13:35:00"]) expect(says(mark(`2026-11-22T${at}Z`, "x"))).toContain("; at");
    for (const at of ["13:09:59", "13:35:01"])
      expect(says(mark(`2026-11-22T${at}Z`, "x"))).not.toContain(";");
  });
});
