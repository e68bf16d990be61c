/** Reports of use by the API and in the console: what they say before, each once, and the rights. */
import { describe, expect, test } from "bun:test";
import { monthOf } from "../../src/base/calendar.ts";
import { toId } from "../../src/base/ids.ts";
import { findUsageByDay } from "../../src/usage/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { createJournal, digestOf, JOURNAL, OTHER_JOURNAL, payloadOf } from "../usage/reports/report_kit.ts";
import { createConsoleClient } from "./console_client.ts";
import { textsOf } from "./texts_of.ts";

const admin = useAdmin({ clock: createTestClock("2026-11-20T12:00:00Z", { stands: true }) });

const console = useForAll(async () => ({ ...createConsoleClient(admin), close: async () => {} }));

const post = (text: string | ReadableStream, query = "", token?: string) =>
  admin.call("POST", `/usage/reports${query}`, { file: text, ...(token !== undefined && { token }) });

const plain = (html: string) => textsOf(html, "main").join(" ");

async function usedOf(licenseUuid: string): Promise<number[]> {
  const { used, over } = await findUsageByDay(admin.database, licenseUuid, monthOf(admin.clock.nowMs()));
  return [used, over];
}

describe("POST /admin/v1/usage/reports", () => {
  test("says what would change, imports once, and says what it has changed", async () => {
    const { licenseUuid } = await admin.issue({ monthlyLimit: 2 });
    const text = createJournal(licenseUuid).next();
    const answer = {
      outcome: "foreseen",
      license_id: toId("lic", licenseUuid),
      machine: payloadOf({ licenseUuid }).machine,
      journal: JOURNAL,
      number: 1,
      digest: digestOf(text),
      made_at: "2026-11-20T11:00:00Z",
      imported_at: null,
      clients: ["python 0.6.0"],
      days: 1,
      events: 0,
      marks: [],
      months: [
        { month: "2026-11", units: 3, over: 1, before: { used: 0, over: 0 }, after: { used: 2, over: 1 } },
      ],
    };
    expect(await post(text, "?dry_run=true")).toMatchObject({ status: 200, body: answer });
    expect(await usedOf(licenseUuid)).toEqual([0, 0]);
    const imported = { ...answer, outcome: "imported", imported_at: "2026-11-20T12:00:00Z" };
    expect((await post(text)).body).toEqual(imported);
    for (const query of ["", "?dry_run=true"])
      expect((await post(text, query)).body).toEqual({ ...imported, outcome: "known" });
    expect(await usedOf(licenseUuid)).toEqual([2, 1]);
  });

  test("refuses what is no report, a gap and a branch, each with its sentence", async () => {
    const { licenseUuid } = await admin.issue();
    expect((await post("no report")).body).toMatchObject({ code: "INVALID_REQUEST" });
    expect((await post("")).body).toMatchObject({ code: "INVALID_REQUEST" });
    const journal = createJournal(licenseUuid);
    const first = journal.next();
    journal.next();
    expect(await post(journal.next())).toMatchObject({
      ...{
        status: 409,
        body: { code: "CONFLICT", error: expect.stringContaining("report 1 of this machine") },
      },
    });
    await post(first);
    const other = createJournal(licenseUuid, { journal: OTHER_JOURNAL }).next();
    expect((await post(other)).body.error).toEndWith(
      "; add new_journal with a reason if that is meant, such as after a restore of the machine",
    );
    expect(await post(other, "?new_journal=true")).toMatchObject({
      ...{ status: 400, body: { details: [{ field: "reason" }] } },
    });
    expect((await post(other, "?new_journal=true&reason=restored")).body).toMatchObject({
      ...{ outcome: "imported", marks: ["new_journal"] },
    });
    for (const query of ["?dry_run=yes", "?more=1"]) expect((await post(first, query)).status).toBe(400);
    const unknown = createJournal("019a0000-0000-7000-8000-000000000000").next();
    expect(await post(unknown)).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
  });

  test("refuses a body that is too large or encoded, and one report while another one comes", async () => {
    const large = "a".repeat(32 * 1024 * 1024 + 2);
    expect((await post(large)).body).toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    const encoded = await admin.call("POST", "/usage/reports", {
      file: "a",
      headers: { "content-encoding": "gzip" },
    });
    expect(encoded.body).toMatchObject({ code: "UNSUPPORTED_MEDIA_TYPE" });
    let end = () => {};
    const slow = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("a"));
        end = () => controller.close();
      },
    });
    const first = post(slow);
    let second = await post("b");
    // The slow one may not have come yet. Then another one waits for two seconds.
    for (let tries = 0; second.status !== 503 && tries < 100; tries++) second = await post("b");
    expect(second).toMatchObject({ status: 503, body: { code: "SERVICE_UNAVAILABLE" } });
    end();
    expect((await first).status).toBe(400);
    expect((await post("b")).status).toBe(400);
  });

  test("needs the scope usage:import", async () => {
    const token = await admin.token({ scopes: ["usage:read", "keys:issue"] });
    expect(await post("a", "", token)).toMatchObject({ status: 403, body: { code: "SCOPE_REQUIRED" } });
    const own = await admin.token({ scopes: ["usage:import"] });
    expect((await post("a", "", own)).status).toBe(400);
  });
});

describe("what operators see of use beyond the limit", () => {
  test("lists, licenses, keys and accounts have it, also of a license without any other use", async () => {
    const { licenseUuid, id, userId } = await admin.issue({ monthlyLimit: 0 });
    await post(createJournal(licenseUuid).next());
    const { body: list } = await admin.call("GET", "/usage?limit=100");
    const row = list.data.find(
      (each: { license_id: string }) => each.license_id === toId("lic", licenseUuid),
    );
    expect(row).toMatchObject({ used: 0, over: 3 });
    const { body: csv } = await admin.call("GET", "/usage", { headers: { accept: "text/csv" } });
    expect(csv.split("\r\n")[0]).toEndWith(",used_percent,over");
    const { body: license } = await admin.call("GET", `/licenses/${toId("lic", licenseUuid)}`);
    expect(license).toMatchObject({ used: 0, over: 3 });
    expect((await admin.call("GET", `/keys/${id}/usage`)).body).toMatchObject({ used: 0, over: 3 });
    const { body: year } = await admin.call("GET", `/accounts/${userId}/usage`);
    expect(year.months.at(-1)).toEqual({ month: "2026-11", used: 0, over: 3 });
    const { cookie } = await console.logIn("viewer");
    for (const path of ["/usage", `/licenses/${toId("lic", licenseUuid)}`])
      expect((await console.send(path, { cookie })).text).toContain("3 more beyond the limit");
    for (const path of [`/keys/${id}`, `/accounts/${userId}`])
      expect((await console.send(path, { cookie })).text).toContain("3 more were beyond the limit");
  });
});

describe("the console", () => {
  test("shows what would change, and imports it after that", async () => {
    const { licenseUuid } = await admin.issue({ monthlyLimit: 2 });
    const { cookie } = await console.logIn("editor");
    expect((await console.send("/usage", { cookie })).text).toContain('href="/console/usage/reports"');
    expect((await console.send("/usage/reports", { cookie })).status).toBe(200);
    const form = { report: ` ${createJournal(licenseUuid).next()}\r\n`, reason: "by mail" };
    const preview = await console.send("/usage/reports", { cookie, form });
    expect(preview.status).toBe(200);
    expect(plain(preview.text)).toContain("Would import report 1 of");
    expect(preview.text).toContain('action="/console/usage/reports/import"');
    expect(await usedOf(licenseUuid)).toEqual([0, 0]);
    const done = await console.send("/usage/reports/import", { cookie, form });
    expect(plain(done.text)).toContain(": 3 units, 1 of them beyond the limit");
    expect(await usedOf(licenseUuid)).toEqual([2, 1]);
    for (const step of ["", "/import"]) {
      const again = await console.send(`/usage/reports${step}`, { cookie, form });
      expect(plain(again.text)).toContain("Already imported at 2026-11-20T12:00:00Z: report 1 of");
    }
    expect(await usedOf(licenseUuid)).toEqual([2, 1]);
    const [row] = await admin.database.query<{ reason: string; door: string }>(
      (sql) => sql`select reason, door from audit where action = 'usage.report' order by id desc limit 1`,
    );
    expect(row).toEqual({ reason: "by mail", door: "console" });
    const history = await console.send(`/licenses/${toId("lic", licenseUuid)}`, { cookie });
    expect(history.text).toContain("imported a report of use for the license of the key");
  });

  test("keeps the form of a refused report, and asks for the box of another journal", async () => {
    const { licenseUuid } = await admin.issue();
    await post(createJournal(licenseUuid).next());
    const { cookie } = await console.logIn("editor");
    const report = createJournal(licenseUuid, { journal: OTHER_JOURNAL }).next();
    const refused = await console.send("/usage/reports", { cookie, form: { report } });
    expect(refused.status).toBe(400);
    expect(refused.text).toContain("Check the box and give a reason if another journal is meant");
    expect(refused.text).toContain(`value="${report.trim()}"`);
    const without = await console.send("/usage/reports", { cookie, form: { report, new_journal: "yes" } });
    expect(without.text).toContain("It is needed for a new journal");
    const form = { report, new_journal: "yes", reason: "restored" };
    const preview = await console.send("/usage/reports", { cookie, form });
    expect(plain(preview.text)).toContain("it begins another journal");
    expect((await console.send("/usage/reports/import", { cookie, form })).status).toBe(200);
    expect((await console.send("/usage/reports", { cookie, form: { report: "" } })).status).toBe(400);
    const large = await console.send("/usage/reports", {
      cookie,
      form: { report: "a".repeat(4 * 1024 * 1024) },
    });
    expect(large.status).toBe(413);
  });

  test("is not for viewers", async () => {
    const { cookie } = await console.logIn("viewer");
    expect((await console.send("/usage", { cookie })).text).not.toContain("/console/usage/reports");
    for (const sent of [{}, { form: { report: "a" } }])
      expect((await console.send("/usage/reports", { cookie, ...sent })).status).toBe(403);
  });
});
