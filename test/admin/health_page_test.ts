/** The page Health: its summary, its tables, and the requests of the last day. `health_rows_test.ts` has each sentence. */
import { describe, expect, test } from "bun:test";
import { newUuid } from "../../src/base/ids.ts";
import type { Finding } from "../../src/installation/doctor/mod.ts";
import type { Role } from "../../src/operators/mod.ts";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { addLatency } from "../../src/usage/latency/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { useForEach } from "../support/use.ts";
import { bucketsOf } from "../usage/latency/latency_kit.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, HOSTILE, linkTo, textsOf } from "./texts_of.ts";

const DAY_MS = 86_400_000;
const GOOD: Finding = {
  name: "database",
  state: "ok",
  message: "PostgreSQL 18.6 in /var/lib/claviger, the one inside",
};

const processUuid = newUuid();
let findings: readonly Finding[];
let certificateExpiresAt: Date | undefined;
// A new one for each test, because the summary names all that is in the database.
const admin = useForEach(() =>
  startAdmin({
    admin: { examine: async () => findings, processUuid, certificateExpiresAt: () => certificateExpiresAt },
  }),
);
const client = createConsoleClient(admin);

/** Gives the service another state, which the next page shows. */
function become(next: readonly Finding[], expiresAt?: Date): void {
  findings = next;
  certificateExpiresAt = expiresAt;
  admin.clock.advance(60_001);
}

async function open(role: Role = "viewer", path = "/health") {
  const { cookie } = await client.logIn(role);
  return (await client.send(path, { cookie })).text;
}

async function insertProcess(address: string, { uuid = newUuid(), age = "20 seconds" } = {}): Promise<void> {
  await admin.database.query(
    (sql) => sql`
      insert into processes (id, version, host, address, started_at, seen_at, p50_ms, p95_ms)
      values (${uuid}::uuid, '0.9.1', 'node-a.example.org', ${address}, now() - interval '3 days', now() - ${age}::interval,
              0.6321, 1234.5)`,
  );
}

const summaryOf = (text: string) => textsOf(text, ".notice")[0];
/** The rows of the table that follows a title. */
const rowsBelow = (text: string, title: string) =>
  textsOf(text.split(`${title}</h2>`)[1]?.split("</table>")[0] ?? "", "tbody tr");

describe("Health", () => {
  test("says in one line that everything works, and which process shows the page", async () => {
    become([GOOD]);
    await insertProcess("http://10.0.0.1:8080", { uuid: processUuid });
    const atMs = admin.clock.nowMs() - 30 * 60_000;
    const count = { endpoint: "validate", refused: 0, failed: 0, buckets: bucketsOf(0.8, 2_000) };
    await addLatency(admin.database, [{ atMs, count }], { processUuid });
    const text = await open();
    expect(summaryOf(text)).toBe("Everything works. 1 process serves this database.");
    expect(rowsBelow(text, "Processes")).toEqual([
      expect.stringMatching(
        /^http:\/\/10\.0\.0\.1:8080 ?shows you this page node-a\.example\.org serving 0\.9\.1 .*3 days ago half within 1 ms ?95 % within 2,300 ms now$/,
      ),
    ]);
    expect(text).toContain("The service has no certificate of its own.");
    expect(text).toContain("No request was counted in the last day.");
  });

  test("names what is wrong and what will fail, each with its remedy, and hostile texts as text", async () => {
    const remedy = "free some space, or move the data folder to a larger disk";
    const found: Finding[] = [
      { name: "disk", state: "fail", message: `12 MB free for ${HOSTILE}\u202e`, remedy },
      { name: "schema", state: "warn", message: "21", remedy: "run `claviger migrate`" },
      { name: "writes", state: "skip", message: "cannot be seen", remedy: "run as root" },
    ];
    become(found, new Date(admin.clock.nowMs() + 5.5 * DAY_MS));
    await insertProcess("http://10.0.0.2:8080", { age: "6 minutes" });
    await admin.token({ name: "shop", expiresAt: new Date(admin.clock.nowMs() + 10 * DAY_MS) });
    const text = await open("admin");
    expect(summaryOf(text)).toBe(
      "Wrong: disk. Needs attention: schema, certificate expires soon, token shop expires soon, a process is lost.",
    );
    expect(rowsBelow(text, "Checks")[0]).toBe(`disk wrong 12 MB free for ${HOSTILE}\\u202e ${remedy}`);
    expect(text).not.toContain("<img");
    expect(textsOf(text, "td code")[0]).toBe("claviger migrate");
    const [certificate, token] = rowsBelow(text, "Expiry");
    expect(certificate).toMatch(/^certificate expires soon .*in [56] days replace its files/);
    expect(token).toContain("claviger tokens renew shop --expires-at TIME");
  });

  test.each(["viewer", "editor"] as const)("names no token to the role %s", async (role) => {
    become([GOOD], new Date(admin.clock.nowMs() + 5.5 * DAY_MS));
    await admin.token({ name: "shop", expiresAt: new Date(admin.clock.nowMs() + 10 * DAY_MS) });
    expect(await open("admin")).toContain("token shop expires soon");
    const text = await open(role);
    expect(summaryOf(text)).toBe("Needs attention: certificate expires soon.");
    expect(text).not.toContain("shop");
  });

  test("shows the requests of the last day by endpoint and hour, and unusual hours in the first line", async () => {
    become([GOOD]);
    const nowMs = admin.clock.nowMs();
    const rows = Array.from({ length: 61 }, (_, hoursAgo) => {
      const hourMs = nowMs - (nowMs % 3_600_000) - hoursAgo * 3_600_000;
      const of = (endpoint: string, code: string, count: number) =>
        ({ hourMs, endpoint, code, reason: "", count }) as const;
      return [
        of("validate", "OK", 1_000 + hoursAgo * 10),
        of("validate", "INVALID_KEY", 12),
        ...(hoursAgo % 3 === 0 ? [of("machine_heartbeat", "OK", 40)] : []),
        ...(hoursAgo === 2 ? [of("analytics", "SERVER_ERROR", 31)] : []),
      ];
    });
    await addActivity(admin.database, rows.flat());

    const text = await open();

    expect(summaryOf(text)).toMatch(
      /^Needs attention: .*unusually many answers “failure of the service” at \d\d:00\. Show unusual hours$/,
    );
    const links = attributesOf(text, "tbody a", "href").filter((href) => href.includes("endpoint="));
    expect(links.map((href) => /endpoint=(\w+)/.exec(href)?.[1])).toEqual([
      ...["validate", "machine_heartbeat", "analytics"],
    ]);
    const endpoints = textsOf(text, "tbody tr").filter((row) => /^(checks|heartbeats|events)/.test(row));
    expect(endpoints).toEqual([
      ...["checks of keys 27,048 288 0", "heartbeats of machines 320 0 0", "events 31 0 31"],
    ]);
    expect(attributesOf(text, "td [role=img]", "aria-label")[0]).toMatch(/^Most at \d\d:00: 1,242$/);
    // The small charts leave out the hour that is not over.
    expect(attributesOf(text, "td .line", "viewBox")).toEqual(Array<string>(3).fill("0 0 23 20"));
    expect(textsOf(text, ".total")[0]).toMatch(/^27,\d{3} requests, 1\d % less than in the 24 hours before$/);
    expect(await open("viewer", linkTo(text, "Show unusual hours"))).toContain(
      "Unusual hours, the latest first",
    );

    const one = await open("viewer", linkTo(text, "events"));
    expect(one).toContain("Requests by hour, events");
    expect(textsOf(one, ".total")).toEqual(["31 requests, none in the 24 hours before"]);
    const numbers = textsOf(one, ".numbers tbody tr");
    expect(numbers).toHaveLength(24);
    expect(numbers[2]).toMatch(/^\d\d:00 0 0 31 31$/);
    // The present hour alone is not over.
    expect(textsOf(one, ".values b").map((value) => value.includes(", not over"))).toEqual([
      ...Array<boolean>(23).fill(false),
      true,
    ]);
    expect(await open("viewer", linkTo(one, "Show all endpoints"))).toContain(
      "Requests by hour, all endpoints",
    );
  });
});
