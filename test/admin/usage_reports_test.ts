/** Reports of use by the API and in the console: what they say before, each once, and the rights. */
import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { createConnection } from "node:net";
import { createReportTurns } from "../../src/admin/open_admin_app.ts";
import { monthOf } from "../../src/base/calendar.ts";
import { parseId, toId } from "../../src/base/ids.ts";
import { silentLog } from "../../src/base/log.ts";
import type { Database } from "../../src/database/mod.ts";
import { createLicenseSigner } from "../../src/licensing/signed_licenses/mod.ts";
import { revokeToken } from "../../src/operators/mod.ts";
import { createReportImports, findUsageByDay } from "../../src/usage/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { createTestClock } from "../support/clock.ts";
import { MUCH_ROOM } from "../support/events.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { openSecrets } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import {
  createJournal,
  digestOf,
  FINGERPRINT,
  JOURNAL,
  OTHER_JOURNAL,
  payloadOf,
} from "../usage/reports/report_kit.ts";
import { createConsoleClient } from "./console_client.ts";
import { textsOf } from "./texts_of.ts";

const admin = useAdmin({ clock: createTestClock("2026-11-20T12:00:00Z", { stands: true }) });

const console = useForAll(async () => ({ ...createConsoleClient(admin), close: async () => {} }));

const post = (text: string | ReadableStream, query = "", token?: string) =>
  admin.call("POST", `/usage/reports${query}`, { file: text, ...(token !== undefined && { token }) });

const NO_LICENSE = { license_foreseen: null, license: null, license_refusal: null };

const plain = (html: string) => textsOf(html, "main").join(" ");

async function usedOf(licenseUuid: string): Promise<number[]> {
  const { used, over } = await findUsageByDay(admin.database, licenseUuid, monthOf(admin.clock.nowMs()));
  return [used, over];
}

/** A report whose sender is slow. */
interface SlowReport {
  /** Tells whether it was answered already: its room was taken by another report when it came. */
  isRefused(): boolean;
  hangUp(): void;
}

/** Begins reports that each take all room of their sender until another report is refused; returns those that are read. */
async function beginAll(
  tokens: readonly string[],
  { probe, refusedWith }: { readonly probe: string; readonly refusedWith: number },
): Promise<SlowReport[]> {
  let slow = await Promise.all(tokens.map(begin));
  await until(async () => {
    const isFull = (await post("a", "", probe)).status === refusedWith;
    slow = await Promise.all(
      slow.map((each, index) => (each.isRefused() ? begin(tokens[index] ?? "") : each)),
    );
    return isFull && slow.every((each) => !each.isRefused());
  });
  return slow;
}

/** Begins to send a report of the largest size, and sends no more than a byte of it. */
async function begin(token: string): Promise<SlowReport> {
  const { hostname, port } = new URL(admin.url);
  const socket = createConnection(Number(port), hostname);
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(
    `POST /admin/v1/usage/reports HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${token}\r\n` +
      `Content-Length: ${32 * 1024 * 1024 + 1}\r\n\r\na`,
  );
  let isRefused = false;
  socket.on("data", () => {
    isRefused = true;
  });
  return { isRefused: () => isRefused, hangUp: () => void socket.destroy() };
}

describe("POST /admin/v1/usage/reports", () => {
  test("says what would change, imports once, and says what it has changed", async () => {
    const { licenseUuid } = await admin.issue({ monthlyLimit: 2, organization: "Test Lab" });
    const text = createJournal(licenseUuid).next();
    const answer = {
      outcome: "foreseen",
      license_id: toId("lic", licenseUuid),
      email: expect.stringContaining("@example.org"),
      organization: "Test Lab",
      machine: payloadOf({ licenseUuid }).machine,
      machine_id: null,
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
      ...NO_LICENSE,
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
        body: {
          code: "CONFLICT",
          error: expect.stringMatching(/reports 1 to 2 of this machine .*; nothing was imported$/),
        },
      },
    });
    await post(first);
    const other = createJournal(licenseUuid, { journal: OTHER_JOURNAL }).next();
    expect((await post(other)).body.error).toEndWith(
      "; nothing was imported; add new_journal with a reason if that is meant, such as after a restore of the machine",
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

  test("refuses a body that is too large or encoded", async () => {
    const large = "a".repeat(32 * 1024 * 1024 + 2);
    const refused = (await post(large)).body;
    expect(refused).toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
    expect(refused.error).toEndWith("; nothing was imported");
    const encoded = await admin.call("POST", "/usage/reports", {
      file: "a",
      headers: { "content-encoding": "gzip" },
    });
    expect(encoded.body).toMatchObject({ code: "UNSUPPORTED_MEDIA_TYPE" });
  });

  test("is not delayed by a sender that sends a byte a second, who may send no other report meanwhile", async () => {
    const [slowToken, quickToken] = [await admin.token(), await admin.token()];
    const [slow] = await beginAll([slowToken], { probe: slowToken, refusedWith: 429 });
    const refused = await post("a", "", slowToken);
    expect(refused).toMatchObject({ status: 429, body: { code: "RATE_LIMIT_EXCEEDED" } });
    expect(refused.headers.get("retry-after")).toBe("5");
    const { licenseUuid } = await admin.issue();
    expect(await post(createJournal(licenseUuid).next(), "", quickToken)).toMatchObject({
      ...{ status: 200, body: { outcome: "imported" } },
    });
    slow?.hangUp();
    await until(async () => (await post("a", "", slowToken)).status === 400);
  });

  test("is refused before its body is read while there is no room, and takes room again afterwards", async () => {
    const token = await admin.token();
    const slow = await beginAll([await admin.token(), await admin.token()], {
      probe: token,
      refusedWith: 503,
    });
    const refused = await post("a", "", token);
    expect(refused).toMatchObject({ status: 503, body: { code: "SERVICE_UNAVAILABLE" } });
    expect(refused.headers.get("retry-after")).toBe("1");
    for (const { hangUp } of slow) hangUp();
    await until(async () => (await post("a", "", token)).status === 400);
  });

  test("is refused if its token is revoked while it comes", async () => {
    const { licenseUuid } = await admin.issue();
    const text = createJournal(licenseUuid).next();
    for (const query of ["", `?fingerprint=${FINGERPRINT}`]) {
      const name = `revoked-${query.length}`;
      const token = await admin.token({ name });
      let end = () => {};
      let answer: ReturnType<typeof post> | undefined;
      const begin = () => {
        const slow = new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode(text.slice(0, 100)));
            end = () => {
              controller.enqueue(new TextEncoder().encode(text.slice(100)));
              controller.close();
            };
          },
        });
        const sent = post(slow, query, token);
        answer = sent;
        // Another report had taken its room.
        void sent.then(({ status }) => {
          if (status === 429) answer = undefined;
        });
      };
      const isRefused = async () => (await post("a", "", token)).status === 429;
      // Without a declared size it takes all room of its token. Another report gives its room back just after its answer, so a
      // second one must be refused, too.
      await until(async () => {
        if (answer === undefined) begin();
        return (await isRefused()) && (await isRefused()) && answer !== undefined;
      });
      orThrow(await revokeToken(admin.database, name, { actor: ACTOR, now: admin.clock.now() }));
      end();
      expect(await answer).toMatchObject({ status: 401, body: { code: "INVALID_TOKEN" } });
      expect((await answer)?.body.error).toMatch(/^Cannot import report: .*; nothing was imported$/);
    }
    expect(await usedOf(licenseUuid)).toEqual([0, 0]);
  });

  test("lets a clock that is ahead pass with a reason", async () => {
    const { licenseUuid } = await admin.issue();
    const text = createJournal(licenseUuid).next({ made_at: "2026-12-20T11:00:00Z" });
    const refused = await post(text);
    expect(refused).toMatchObject({ status: 409 });
    expect(refused.body.error).toEndWith(
      "; nothing was imported; add clock_ahead with a reason if its use is to count with the days that it has",
    );
    expect(await post(text, "?clock_ahead=true")).toMatchObject({
      ...{ status: 400, body: { details: [{ field: "reason" }] } },
    });
    expect(await usedOf(licenseUuid)).toEqual([0, 0]);
    expect((await post(text, "?clock_ahead=true&reason=battery")).body).toMatchObject({
      ...{ outcome: "imported", marks: ["clock_ahead"] },
    });
  });

  test("signs the next license of the machine after the import, and says before what it will be", async () => {
    const { licenseUuid, id } = await admin.issue({ maxMachines: 1 });
    const text = createJournal(licenseUuid).next();
    const query = `?fingerprint=${FINGERPRINT}&days=60`;
    const end = "2027-01-19T12:00:00Z";
    const foreseen = await post(text, `${query}&dry_run=true`);
    expect(foreseen.body).toMatchObject({
      ...NO_LICENSE,
      outcome: "foreseen",
      license_foreseen: { key_id: id, expires_at: end, place_until: end, term_ends_at: null },
    });
    expect(await exportsOf(id)).toBe(0);
    const { status, body } = await post(text, `${query}&reason=by+mail`);
    expect(status).toBe(200);
    expect(body).toMatchObject({ outcome: "imported", license_foreseen: null, license_refusal: null });
    const { license } = body;
    expect(license).toMatchObject({ expires_at: end, machine_id: expect.stringMatching(/^mch_/) });
    expect(license.file).toContain("-----BEGIN LICENSE-----");
    expect(await exportsOf(id)).toBe(1);
    // The same line again, such as after a lost answer: the report is known, and another license is signed.
    const again = await post(text, `${query}&key_id=${id}`);
    expect(again.body).toMatchObject({
      outcome: "known",
      machine_id: license.machine_id,
      license: { expires_at: end },
    });
    expect(await exportsOf(id)).toBe(2);
  });

  test("imports nothing if the next license would be refused", async () => {
    const { licenseUuid, id } = await admin.issue({ maxMachines: 1, maxOfflineDays: 3_000 });
    const text = createJournal(licenseUuid).next();
    const other = await admin.issue();
    const of = `?fingerprint=${FINGERPRINT}`;
    const refusals = async (query: string) => {
      const { status, body } = await post(text, query);
      expect(body.error).toEndWith("; nothing was imported");
      expect(await usedOf(licenseUuid)).toEqual([0, 0]);
      return [status, body.error];
    };
    for (const isDryRun of [false, true]) {
      const refused = (query: string) => refusals(isDryRun ? `${query}&dry_run=true` : query);
      expect(await refused("?fingerprint=workstation-8")).toEqual([
        400,
        "Cannot export license: the fingerprint is not that of the machine of the report; nothing was imported",
      ]);
      expect(await refused("?days=9")).toEqual([
        400,
        "Cannot sign the next license: days and key_id need the fingerprint of its machine; nothing was imported",
      ]);
      expect((await refused(`${of}&days=3001`))[1]).toContain("the license is signed for at most 3,000 days");
      expect((await refused(`${of}&key_id=${other.id}`))[1]).toContain(
        `${other.id} is no key of the license`,
      );
    }
    await admin.call("POST", `/keys/${id}/license`, { body: { fingerprint: "workstation-9", days: 3_000 } });
    expect((await refusals(of))[1]).toContain(
      "1 of 1 places for machines are taken, the next one until 2035-02-06T12:00:00Z",
    );
    await admin.call("POST", `/keys/${id}/suspend`, { body: {} });
    expect((await refusals(of))[1]).toContain("no key of the license is active");
    const suspended = await post(text, `${of}&key_id=${id}`);
    expect(suspended).toMatchObject({
      status: 409,
      body: { error: "Cannot export license: the key is suspended; nothing was imported; resume it first" },
    });
    expect(await usedOf(licenseUuid)).toEqual([0, 0]);
    expect(await exportsOf(id)).toBe(1);
  });

  test("says both if the license is refused after the import", async () => {
    const { licenseUuid, id } = await admin.issue();
    // Between the check and the signature the key is suspended.
    const suspending = await startAdmin({
      on: admin.testDatabase,
      clock: admin.clock,
      admin: {
        reportImports: createReportImports({
          ...{ database: admin.database, secrets: openSecrets(), textBounds: MUCH_ROOM, log: silentLog },
          inTurn: createReportTurns(),
          licenseSigner: {
            ...createLicenseSigner(signingOn(admin.database)),
            async export(request) {
              await admin.call("POST", `/keys/${id}/suspend`, { body: {} });
              return await createLicenseSigner(signingOn(admin.database)).export(request);
            },
          },
        }),
      },
    });
    const { status, body } = await suspending.call("POST", `/usage/reports?fingerprint=${FINGERPRINT}`, {
      file: createJournal(licenseUuid).next(),
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      outcome: "imported",
      license: null,
      license_refusal: {
        code: "CONFLICT",
        error:
          "The report is imported, but no license was signed: Cannot export license: the key is suspended; resume it first",
      },
    });
    expect(await usedOf(licenseUuid)).toEqual([3, 0]);
    await suspending.close();
  });

  test("says that the report is imported if the license cannot be signed for a reason that nobody expected", async () => {
    const { licenseUuid } = await admin.issue();
    const lines: string[] = [];
    const failing = await startAdmin({
      on: admin.testDatabase,
      clock: admin.clock,
      admin: {
        reportImports: createReportImports({
          ...{ database: admin.database, secrets: openSecrets(), textBounds: MUCH_ROOM },
          log: { ...silentLog, error: (message) => void lines.push(message) },
          inTurn: createReportTurns(),
          licenseSigner: {
            ...createLicenseSigner(signingOn(admin.database)),
            export: () => Promise.reject(new Error("the signing key cannot be opened")),
          },
        }),
      },
    });
    const { status, body } = await failing.call("POST", `/usage/reports?fingerprint=${FINGERPRINT}`, {
      file: createJournal(licenseUuid).next(),
    });
    expect({ status, ...body }).toMatchObject({
      ...{ status: 200, outcome: "imported", license: null },
      license_refusal: {
        code: "SERVER_ERROR",
        error: "The report is imported, but no license was signed: Internal error",
      },
    });
    expect(lines).toEqual(["The license after an import could not be signed"]);
    expect(await usedOf(licenseUuid)).toEqual([3, 0]);
    await failing.close();
  });

  test("needs the scope keys:issue, too, to sign a license", async () => {
    const { licenseUuid } = await admin.issue();
    const text = createJournal(licenseUuid).next();
    const importing = await admin.token({ scopes: ["usage:import"] });
    expect(await post(text, `?fingerprint=${FINGERPRINT}`, importing)).toMatchObject({
      status: 403,
      body: {
        code: "SCOPE_REQUIRED",
        error:
          "Cannot sign the next license: the token needs the scope keys:issue, too; nothing was imported",
      },
    });
    expect(await usedOf(licenseUuid)).toEqual([0, 0]);
    const both = await admin.token({ scopes: ["usage:import", "keys:issue"] });
    expect((await post(text, `?fingerprint=${FINGERPRINT}`, both)).body.license).not.toBeNull();
  });

  test("needs the scope usage:import", async () => {
    const token = await admin.token({ scopes: ["usage:read", "keys:issue"] });
    expect(await post("a", "", token)).toMatchObject({ status: 403, body: { code: "SCOPE_REQUIRED" } });
    const own = await admin.token({ scopes: ["usage:import"] });
    expect((await post("a", "", own)).status).toBe(400);
  });
});

async function exportsOf(keyId: string): Promise<number> {
  const [row] = await admin.database.query<{ count: number }>(
    (sql) => sql`select count(*) from exported_licenses where key_id = ${parseId("key", keyId) ?? ""}::uuid`,
  );
  return row?.count ?? 0;
}

function signingOn(database: Database) {
  const offlineDays = { free: 0, research: 0, commercial: 0, enterprise: 0 };
  return { database, secrets: openSecrets(), brand: BRAND, publicUrl: undefined, offlineDays };
}

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
    for (const path of ["/usage", `/licenses/${toId("lic", licenseUuid)}`, `/keys/${id}`])
      expect((await console.send(path, { cookie })).text).toContain("3 more beyond the limit");
    expect((await console.send(`/accounts/${userId}`, { cookie })).text).toContain(
      "3 more were beyond the limit",
    );
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
    expect(without.text).toContain("It is needed for another journal, and for a clock that is ahead");
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

  test("asks for the box of a clock that is ahead", async () => {
    const { licenseUuid } = await admin.issue();
    const { cookie } = await console.logIn("editor");
    const report = createJournal(licenseUuid).next({ made_at: "2026-12-20T11:00:00Z" });
    const refused = await console.send("/usage/reports", { cookie, form: { report } });
    expect(refused.text).toContain("Check the box and give a reason if its use is to count with the days");
    const form = { report, clock_ahead: "yes", reason: "battery" };
    const preview = await console.send("/usage/reports", { cookie, form });
    expect(plain(preview.text)).toContain("the clock of its machine is ahead");
    // The preview passes on what the import needs.
    expect(preview.text).toContain('<input type="hidden" name="clock_ahead" value="yes"/>');
    const done = await console.send("/usage/reports/import", { cookie, form });
    expect(plain(done.text)).toContain("Imported report 1 of");
  });

  test("says which license it would sign, and offers it after the import", async () => {
    const { licenseUuid, id } = await admin.issue({ maxMachines: 1, organization: "Test Lab" });
    const { cookie } = await console.logIn("editor");
    const report = createJournal(licenseUuid).next();
    const form = { report, fingerprint: FINGERPRINT, days: "60" };
    const preview = await console.send("/usage/reports", { cookie, form });
    expect(plain(preview.text)).toContain("Would import report 1 of Test Lab: 3 units");
    expect(plain(preview.text)).toContain(
      `It would be signed for the key ${id}, and valid until 2027-01-19T12:00:00Z`,
    );
    expect(plain(preview.text)).toContain(
      "The machine then has a place of the license until 2027-01-19T12:00:00Z, also if it is released earlier",
    );
    expect(preview.text).toContain(`<input type="hidden" name="fingerprint" value="${FINGERPRINT}"/>`);
    expect(preview.text).toContain('<input type="hidden" name="days" value="60"/>');
    expect([await usedOf(licenseUuid), await exportsOf(id)]).toEqual([[0, 0], 0]);
    const done = await console.send("/usage/reports/import", { cookie, form });
    expect(plain(done.text)).toContain("It is signed, and valid until 2027-01-19T12:00:00Z.");
    const [, file = ""] =
      /download="key_\w+\.license" href="data:text\/plain;charset=utf-8,([^"]+)"/.exec(done.text) ?? [];
    expect(decodeURIComponent(file)).toStartWith("-----BEGIN LICENSE-----\nLicense: lic_");
    expect([await usedOf(licenseUuid), await exportsOf(id)]).toEqual([[3, 0], 1]);
    const [machine] = await admin.database.query<{ uuid: string }>(
      (sql) => sql`select id as uuid from machines where license_id = ${licenseUuid}::uuid`,
    );
    expect(done.text).not.toContain(`/console/machines/${toId("mch", machine?.uuid ?? "")}`);
    // A known report can still bring the next license. Now its machine is known, too.
    const known = await console.send("/usage/reports", { cookie, form });
    expect(plain(known.text)).toContain("Sign the license");
    expect(known.text).toContain(`/console/machines/${toId("mch", machine?.uuid ?? "")}`);
  });

  test("imports nothing if it may not sign the license", async () => {
    const { licenseUuid, id } = await admin.issue({ maxMachines: 1 });
    const { cookie } = await console.logIn("editor");
    const report = createJournal(licenseUuid).next();
    for (const step of ["", "/import"]) {
      const other = await console.send(`/usage/reports${step}`, {
        cookie,
        form: { report, fingerprint: "workstation-8" },
      });
      expect(other.text).toContain("It is not the fingerprint of the machine of the report");
      const alone = await console.send(`/usage/reports${step}`, { cookie, form: { report, days: "60" } });
      expect(alone.text).toContain("It is needed with days");
    }
    // Every file is for more days than its tier has, so it needs a login of the last minutes.
    await admin.database.query(
      (sql) => sql`update operator_sessions set created_at = created_at - interval '6 minutes'`,
    );
    for (const step of ["", "/import"]) {
      const form = { report, fingerprint: FINGERPRINT };
      const refused = await console.send(`/usage/reports${step}`, { cookie, form });
      expect(plain(refused.text)).toContain("sign a license for more than the");
      expect(refused.status).toBe(403);
    }
    expect([await usedOf(licenseUuid), await exportsOf(id)]).toEqual([[0, 0], 0]);
  });

  test("is not for viewers", async () => {
    const { cookie } = await console.logIn("viewer");
    expect((await console.send("/usage", { cookie })).text).not.toContain("/console/usage/reports");
    for (const sent of [{}, { form: { report: "a" } }])
      expect((await console.send("/usage/reports", { cookie, ...sent })).status).toBe(403);
  });
});
