/** The page Latency: from "it is slow since noon" to what happened, and to the keys that were refused. */
import { beforeAll, describe, expect, test } from "bun:test";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { uuidOf } from "../support/keys.ts";
import { useAdmin } from "../support/use.ts";
import { addDayOfLatency } from "../usage/latency/latency_kit.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, linkTo, textsOf } from "./texts_of.ts";

const NOW = "2026-11-22T14:07:00Z";

const admin = useAdmin({ clock: createTestClock(NOW, { stands: true }) });
const client = createConsoleClient(admin);
let cookie: string;

const open = async (path: string) => (await client.send(path, { cookie })).text;
/** The rows of a table, by the beginning of its caption. */
const rowsOf = (text: string, caption: string) => {
  const [, after = ""] = text.split(`<caption>${caption}`);
  return textsOf(after.split("</table>")[0] ?? "", "tbody tr");
};

describe("While nothing was counted", () => {
  const empty = createConsoleClient(useAdmin({ clock: createTestClock(NOW) }));

  test("says when a request appears, and that nothing is known to have happened", async () => {
    const { cookie } = await empty.logIn("viewer");
    for (const path of ["/health/latency", "/health/latency?endpoint=validate&at=2026-11-22T12:05:00Z"]) {
      const { status, text } = await empty.send(path, { cookie });
      expect(status).toBe(200);
      expect(text).toContain("No start, failover or backup is known of this time");
    }
    const { text } = await empty.send("/health/latency", { cookie });
    expect(text).toContain("appears about a minute after its answer");
  });
});

describe("It is slow since noon", () => {
  beforeAll(async () => {
    ({ cookie } = await client.logIn("viewer"));
    await addDayOfLatency(admin.database, Date.parse(NOW));
    await admin.database.query(
      (sql) => sql`
        insert into starts (kind, id, version, at)
        values ('process', 'a', '0.5.0', '2026-11-19T08:00:00Z'), ('process', 'b', '0.6.0', '2026-11-22T12:09:30Z'),
               ('process', 'd', '0.5.0', '2026-11-21T13:50:00Z'),
               ('process', 'c', '0.6.0', '2026-11-22T12:11:00Z')`,
    );
    await admin.database.query(
      (sql) => sql`insert into taken_backups (at) values ('2026-11-22T02:15:00Z'), ('2026-11-22T05:15:00Z')`,
    );
    const answer = { endpoint: "validate", reason: "" };
    const hourMs = Date.parse("2026-11-22T12:00:00Z");
    await addActivity(admin.database, [
      { hourMs, ...answer, code: "RATE_LIMIT_EXCEEDED", count: 100 },
      { hourMs, ...answer, code: "KEY_EXPIRED", count: 7 },
      { hourMs, endpoint: "analytics", reason: "", code: "SERVER_ERROR", count: 2 },
      // The refusals of a key are known only over all endpoints.
      { hourMs, endpoint: "license", reason: "", code: "RATE_LIMIT_EXCEEDED", count: 80 },
    ]);
    const key = await admin.issue({ email: "ada@example.org" });
    await admin.database.query(
      (sql) => sql`
        insert into too_many_requests (key_id, began_at, requests, refused)
        values (${uuidOf(key)}::uuid, '2026-11-22T12:20:00Z', 300, 90)`,
    );
  });

  test("Health leads there", async () => {
    const page = await open(linkTo(await open("/health"), "Show how long answers took"));
    expect(textsOf(page, "h1")).toEqual(["Latency"]);
  });

  test("shows the worst endpoint first, by a rule that the page says", async () => {
    const text = await open("/health/latency");
    const rows = rowsOf(text, "The last hour. The worst first: what is slower than before");
    const names = ["checks of keys", "events", "lists of models", "checks of the health"];
    expect(textsOf(text, "table:first-of-type tbody th")).toEqual(names);
    expect(rows[0]).toMatch(
      /^checks of keys \d+ times as long \d+ 6 0 \d+ ms 1\d\d ms 2\d\d ms \d(\.\d)? ms$/,
    );
    expect(rows[1]).toMatch(/^events failures /);
    expect(rows[3]).toMatch(/^checks of the health not slower 720 0 0 /);
    expect(textsOf(text, "figcaption")).toEqual(names);
    expect(attributesOf(text, ".plot > svg:not(.line)", "aria-label")[0]).toMatch(
      /^Time until the answer, checks of keys: In the last hour 95 % within 1\d\d\u00a0ms, in the 24 hours before 95 % within /,
    );
  });

  test("says in words what is slow, since when and what happened then, on this page, Health and Overview", async () => {
    const said =
      /(?:C|c)hecks of keys have taken \d+ times as long since 12:10 \(95 % within 1\d\d ms, before within [\d.]+ ms; at 12:09 version 0\.6\.0 was started in place of 0\.5\.0\)\./;
    for (const path of ["/health/latency", "/health/latency?endpoint=validate"]) {
      const [notice = "", ...others] = textsOf(await open(path), ".notice");
      expect(notice).toMatch(said);
      expect(notice).toContain(
        "An endpoint is slow if 95 % or half of its requests took at least 3 times as long",
      );
      expect(others).toEqual([]);
    }
    for (const path of ["/health", "/overview"]) {
      const text = await open(path);
      expect(textsOf(text, ".notice")[0]).toMatch(said);
      expect(linkTo(text, "Show what is slow")).toBe("/health/latency?endpoint=validate");
    }
    expect(rowsOf(await open("/health"), "Checked: ").at(-1)).toMatch(
      /^latency warning checks of keys have taken /,
    );
    const { body } = await admin.call("GET", "/status", { token: await admin.token() });
    expect(body.findings.at(-1)).toMatchObject({ name: "latency", state: "warn" });
  });

  test("says nothing of an endpoint that is not slow, nor of a time before", async () => {
    for (const path of ["/health/latency?endpoint=analytics", "/health/latency?to=2026-11-22T12:00:00Z"])
      expect(textsOf(await open(path), ".notice")).toEqual([]);
  });

  test("says of the charts of an earlier time which hour they end with", async () => {
    for (const path of ["", "&endpoint=validate"]) {
      const text = await open(`/health/latency?to=2026-11-22T12:00:00Z${path}`);
      expect(textsOf(text, ".chart p")[0]).toStartWith("In the last hour of this time ");
      const [name] = attributesOf(text, ".plot > svg:not(.line)", "aria-label");
      expect(name).toContain(": In the last hour of this time ");
    }
  });

  test("marks what happened in every chart, and lists it", async () => {
    const text = await open("/health/latency");
    expect(rowsOf(text, "The numbers stand in the charts.")).toEqual([
      "4 2026-11-22 12:11 a process of version 0.6.0 was started",
      "3 2026-11-22 12:09 version 0.6.0 was started in place of 0.5.0",
      "2 2026-11-22 05:15 a backup was taken",
      "1 2026-11-22 02:15 a backup was taken",
    ]);
    // Two lines that are so close have one number.
    expect(textsOf(text, "figure:first-of-type text[dy]")).toEqual(["1", "2", "3"]);
    expect(attributesOf(text, "figure:first-of-type line.limit", "x1")).toHaveLength(4);
  });

  test("leads from an endpoint to its five minutes, and from those to causes, errors and refused keys", async () => {
    const one = await open(linkTo(await open("/health/latency"), "checks of keys"));
    expect(textsOf(one, "h1")).toEqual(["Latency of checks of keys"]);
    const values = textsOf(one, ".values b");
    expect(values).toHaveLength(288);
    expect(values[264]).toMatch(
      /^12:10 half within [\d.]+ ms 95 % within [\d.,]+ ms 99 % within [\d.,]+ ms requests \d+, refused \d, failed 0 a process of version 0\.6\.0 was started$/,
    );
    expect(values[287]).toMatch(/^14:05, not over half within /);
    expect(values[286]).toMatch(/^14:00 half within /);
    expect(rowsOf(one, "The slowest five minutes; each leads to its errors and refused keys")).toHaveLength(
      5,
    );
    const hour = await open(linkTo(one, "2026-11-22 12:00"));
    const point = await open(linkTo(hour, "2026-11-22 12:15"));
    expect(textsOf(point, "main h2")).toEqual([
      "checks of keys from 12:15 to 12:20",
      "The last 24 hours",
      "What happened",
    ]);
    expect(rowsOf(point, "What happened in these five minutes and the hour before")).toEqual([
      "2026-11-22 12:09 version 0.6.0 was started in place of 0.5.0",
      "2026-11-22 12:11 a process of version 0.6.0 was started",
    ]);
    expect(rowsOf(point, "Errors of this endpoint from 12:00 to 13:00")).toEqual([
      expect.stringMatching(
        /^There were too many requests within a minute ?RATE_LIMIT_EXCEEDED 100 most by svc_.* of ada@example\.org \(50 %\)$/,
      ),
      expect.stringMatching(/^The license or the key has expired ?KEY_EXPIRED 7 Expired keys$/),
    ]);
    expect(rowsOf(point, '<span id="hour" tabindex="-1">The five minutes from 12:00 to 13:00')).toHaveLength(
      12,
    );
    expect(linkTo(point, "2026-11-22 12:50")).toBe(
      "/health/latency?endpoint=validate&at=2026-11-22T12%3A50%3A00Z#point",
    );
    const activity = await open(linkTo(point, "Show all activity until then, with the refused keys"));
    expect(textsOf(activity, ".values b").at(-1)).toStartWith("11-22 12:00 ");
  });

  test("leads from an hour of the numbers to its five minutes", async () => {
    const one = await open("/health/latency?endpoint=validate");
    const hours = textsOf(one, ".numbers tbody tr");
    expect(hours).toHaveLength(25);
    expect(hours[2]).toMatch(/^2026-11-22 12:00 \d+ 6 0 \d+ ms 1\d\d ms 2\d\d ms$/);
    const point = await open(linkTo(one, "2026-11-22 12:00"));
    const steps = rowsOf(
      point,
      '<span id="hour" tabindex="-1">The five minutes from 12:00 to 13:00; each leads to its errors and refused keys',
    );
    expect(steps.map((row) => row.slice(11, 16))).toEqual(
      Array.from({ length: 12 }, (_, index) => `12:${`${index * 5}`.padStart(2, "0")}`),
    );
    // The first hour begins before the time of the page.
    expect(linkTo(one, "2026-11-21 14:00")).toContain("at=2026-11-21T14%3A10%3A00Z#hour");
  });

  test("leaves the five minutes that are not over out of the requests below a chart", async () => {
    const [all = "", ended = ""] = await Promise.all(
      ["", "&to=2026-11-22T14:05:00Z"].map((to) => open(`/health/latency?endpoint=validate${to}`)),
    );
    const widths = (text: string) =>
      [...(attributesOf(text, ".plot > .line path", "d")[0] ?? "").matchAll(/h(\d+)/g)]
        .map(([, width]) => Number(width))
        .reduce((sum, width) => sum + width, 0);
    expect([widths(all), widths(ended)]).toEqual([287, 288]);
  });

  test("explains the first five minutes of the page by what happened in the hour before", async () => {
    const path = "/health/latency?endpoint=validate&at=2026-11-21T14:10:00Z";
    expect(rowsOf(await open(path), "What happened in these five minutes and the hour before")).toEqual([
      "2026-11-21 13:50 a process of version 0.5.0 was started",
    ]);
  });

  test("shows the time before, and comes back", async () => {
    const earlier = await open(linkTo(await open("/health/latency"), "Earlier"));
    const last = linkTo(earlier, "Latest");
    expect(last).toBe("/health/latency");
    const one = await open("/health/latency?endpoint=validate&to=2026-11-21T14:10:00Z");
    expect(textsOf(one, ".values b").at(-1)).toStartWith("14:05 half within");
    expect(textsOf(one, ".values b")[0]).toBe("14:10 no request");
    expect(attributesOf(one, ".numbers tbody a", "href")[0]).toContain("to=2026-11-21T14%3A10%3A00Z");
  });

  test("stays small with every endpoint", async () => {
    expect(Buffer.byteLength(await open("/health/latency"))).toBeLessThan(60_000);
    expect(Buffer.byteLength(await open("/health/latency?endpoint=validate"))).toBeLessThan(70_000);
  });
});
