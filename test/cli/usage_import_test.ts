/** `claviger usage import`: files in any order, each once, what it says before, and the next license of the machine. */
import { afterAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { monthOf } from "../../src/base/calendar.ts";
import { parseId, toId } from "../../src/base/ids.ts";
import type { IssueRequest } from "../../src/licensing/keys/mod.ts";
import { findUsageByDay } from "../../src/usage/mod.ts";
import { commandsOn } from "../admin/commands_on.ts";
import { createTestClock } from "../support/clock.ts";
import { testFolder } from "../support/postgres.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import {
  createJournal,
  FINGERPRINT,
  nameMachine,
  OTHER_JOURNAL,
  reportFromLicense,
} from "../usage/reports/report_kit.ts";

const admin = useAdmin({ clock: createTestClock("2026-11-20T12:00:00Z", { stands: true }) });
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));
const folder = mkdtempSync(join(testFolder(), "reports-"));
afterAll(() => rmSync(folder, { recursive: true }));

let written = 0;

function save(text: string): string {
  const file = join(folder, `${++written}.report`);
  writeFileSync(file, text);
  return file;
}

async function usedOf(licenseUuid: string) {
  const { used, over } = await findUsageByDay(admin.database, licenseUuid, monthOf(admin.clock.nowMs()));
  return { used, over };
}

/** The customer of all licenses here. */
const OF = "Test Lab";

function originOf(licenseUuid: string): string {
  const { hash } = nameMachine(licenseUuid, FINGERPRINT);
  return `${toId("lic", licenseUuid)} on machine ${hash.slice(0, 8)}…`;
}

const issue = (request: Partial<IssueRequest> = {}) => admin.issue({ organization: OF, ...request });

describe("claviger usage import", () => {
  test("imports files in any order, and says the same before, then and again", async () => {
    const { licenseUuid } = await issue({ monthlyLimit: 4 });
    const journal = createJournal(licenseUuid);
    const files = [save(journal.next()), save(journal.next())].reverse();
    const [second, first] = files;
    const lines = (did: string) =>
      [
        `${first}: ${did}report 1 of ${OF}: 3 units`,
        `  ${originOf(licenseUuid)}`,
        "  2026-11: 3 units; used 0 → 3",
        `${second}: ${did}report 2 of ${OF}: 3 units, 2 of them beyond the limit`,
        `  ${originOf(licenseUuid)}`,
        "  2026-11: 3 units; used 3 → 4, over 0 → 2",
        "",
      ].join("\n");
    const before = await commands.run(["usage", "import", ...files, "--dry-run"]);
    expect(before).toMatchObject({ status: 0, out: lines("Would import ") });
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
    expect(await commands.run(["usage", "import", ...files])).toMatchObject({
      ...{ status: 0, out: lines("Imported "), err: "" },
    });
    const known = "Already imported at 2026-11-20T12:00:00Z: ";
    expect(await commands.run(["usage", "import", ...files])).toMatchObject({ out: lines(known) });
    expect(await usedOf(licenseUuid)).toEqual({ used: 4, over: 2 });
  });

  test("prints JSON as the API answers it", async () => {
    const { licenseUuid } = await issue();
    const text = createJournal(licenseUuid).next();
    const file = save(text);
    const printed = await commands.json(["usage", "import", file]);
    const { status, body } = await admin.call("POST", "/usage/reports", { file: text });
    expect(status).toBe(200);
    const { license, license_foreseen, license_refusal, ...report } = body;
    expect(printed).toEqual({
      ...{ reports: [{ file, ...report, outcome: "imported" }], refused: [], license: null, unwritten: null },
    });
  });

  test("says which report is missing, and imports the others", async () => {
    const [one, two] = [await issue(), await issue()];
    const [first, second] = [createJournal(one.licenseUuid), createJournal(two.licenseUuid)];
    first.next();
    const [late, whole] = [save(first.next()), save(second.next())];
    const missing = `Cannot import report 2 of ${OF} (${originOf(one.licenseUuid)}): report 1 of this machine is missing; import it first: the machine writes it again with \`report-again 1 FILE\``;
    for (const dryRun of [[], ["--dry-run"]])
      expect(await commands.run(["usage", "import", late, ...dryRun])).toMatchObject({
        ...{ status: 1, err: `claviger: ${late}: ${missing}; nothing was imported\n` },
      });
    expect(await commands.run(["usage", "import", late, whole, "--dry-run"])).toMatchObject({
      ...{ status: 3, out: expect.stringContaining(`Would import report 1 of ${OF}`) },
      err: `${late}: ${missing}\nclaviger: Would refuse 1 of 2 reports; the others would be imported\n`,
    });
    expect(await commands.run(["usage", "import", late, late, "--dry-run"])).toMatchObject({
      ...{
        status: 1,
        err: expect.stringContaining("Would refuse 2 of 2 reports: nothing would be imported"),
      },
    });
    const json = await commands.run(["usage", "import", late, whole, "--dry-run", "--json"]);
    expect(JSON.parse(json.out)).toMatchObject({
      reports: [{ file: whole, outcome: "foreseen" }],
      refused: [{ file: late, code: "CONFLICT", error: missing }],
    });
    expect(await usedOf(two.licenseUuid)).toEqual({ used: 0, over: 0 });
    expect(await commands.run(["usage", "import", late, whole])).toMatchObject({
      ...{ status: 3, out: expect.stringContaining(`${whole}: Imported report 1 of ${OF}`) },
      err: `${late}: ${missing}\nclaviger: Refused 1 of 2 reports; the others are imported\n`,
    });
    expect(await commands.run(["usage", "import", late, late])).toMatchObject({
      ...{ status: 1, err: expect.stringContaining("Refused 2 of 2 reports: nothing was imported") },
    });
  });

  test("says which reports are missing, without those that come with it", async () => {
    const { licenseUuid } = await issue();
    const journal = createJournal(licenseUuid);
    const [one, , , four, five] = Array.from({ length: 5 }, () => save(journal.next()));
    const { err } = await commands.run(["usage", "import", one ?? "", four ?? "", five ?? ""]);
    expect(err.match(/reports 2 to 3 of this machine are missing/g)).toHaveLength(2);
    expect(await usedOf(licenseUuid)).toEqual({ used: 3, over: 0 });
  });

  test("prints what was imported if a later one cannot be, and ends with status 3", async () => {
    const { licenseUuid } = await issue();
    const journal = createJournal(licenseUuid);
    const files = [save(journal.next()), save(journal.next())];
    // The database refuses the second report for a reason that nobody expects.
    await admin.database.query(
      (sql) => sql`
        create function refuse_second() returns trigger language plpgsql as
          $$ begin if new.number = 2 then raise exception 'no room'; end if; return new; end $$`,
    );
    await admin.database.query(
      (sql) =>
        sql`create trigger refuse_second before insert on usage_reports for each row execute function refuse_second()`,
    );
    try {
      const { status, out, err } = await commands.run(["usage", "import", ...files, "--json"]);
      expect(status).toBe(3);
      expect(JSON.parse(out)).toMatchObject({
        reports: [{ file: files[0], outcome: "imported" }],
        license: null,
      });
      expect(err).toContain("1 of 2 reports is imported: run the command again, which counts none twice");
      const none = await commands.run(["usage", "import", files[1] ?? ""]);
      expect(none.status).not.toBe(3);
    } finally {
      await admin.database.query((sql) => sql`drop trigger refuse_second on usage_reports`);
      await admin.database.query((sql) => sql`drop function refuse_second`);
    }
    expect(await commands.run(["usage", "import", ...files])).toMatchObject({ status: 0 });
    expect(await usedOf(licenseUuid)).toEqual({ used: 6, over: 0 });
  });

  test("a signal: imports no more, keeps the status of a signal, and says how many are imported", async () => {
    const { licenseUuid } = await issue();
    const journal = createJournal(licenseUuid);
    const files = Array.from({ length: 3 }, () => save(journal.next()));
    // It comes after the first one, while the second one is imported.
    const stop = Promise.withResolvers<string>();
    const { status, out, err } = await commands.run(["usage", "import", ...files], {
      signal: stop.promise,
      onOut: () => stop.resolve("SIGTERM"),
    });
    expect([status, err]).toEqual([
      1,
      "claviger: Stopped by SIGTERM: the reports that are named above are imported; 2 of 3 reports are imported: run the command again, which counts none twice\n",
    ]);
    expect(out).not.toContain("report 3");
    expect(await usedOf(licenseUuid)).toEqual({ used: 6, over: 0 });
  });

  test("imports nothing if one file is no report", async () => {
    const { licenseUuid } = await issue();
    const [good, wrong] = [save(createJournal(licenseUuid).next()), save("no report")];
    expect(await commands.run(["usage", "import", good, wrong])).toMatchObject({
      status: 1,
      err: expect.stringContaining(`${wrong}: Cannot import report: the text is no report of use`),
    });
    expect(await commands.run(["usage", "import", join(folder, "none")])).toMatchObject({
      ...{ status: 1, err: expect.stringMatching(/Cannot read .*; nothing was imported/) },
    });
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
  });

  test("begins another journal with a reason alone", async () => {
    const { licenseUuid } = await issue();
    await commands.run(["usage", "import", save(createJournal(licenseUuid).next())]);
    const other = save(createJournal(licenseUuid, { journal: OTHER_JOURNAL }).next());
    const fork = await commands.run(["usage", "import", other]);
    expect(fork.status).toBe(1);
    expect(fork.err).toContain(
      "; nothing was imported; add --new-journal and --reason TEXT if that is meant, such as after a restore of the machine",
    );
    const unreasoned = await commands.run(["usage", "import", other, "--new-journal"]);
    expect(unreasoned).toMatchObject({
      ...{ status: 1, err: expect.stringMatching(/needs a reason; nothing was imported\n$/) },
    });
    expect((await commands.run(["usage", "import", other, other, "--new-journal"])).status).toBe(2);
    const anew = await commands.run([
      ...["usage", "import", other, "--new-journal", "--reason", "The machine was restored"],
    ]);
    expect(anew).toMatchObject({ status: 0, out: expect.stringContaining("; it begins another journal") });
    const [row] = await admin.database.query<{ reason: string; marks: string[] }>(
      (sql) => sql`
        select reason, after->'marks' as marks from audit
         where action = 'usage.report' and license_id = ${licenseUuid}::uuid order by id desc limit 1`,
    );
    expect(row).toEqual({ reason: "The machine was restored", marks: ["new_journal"] });
  });

  test("takes the report that a machine makes with its license file alone, also of a revoked key", async () => {
    const { id, licenseUuid } = await issue();
    const { license } = await commands.json(["licenses", "export", id, "--fingerprint", FINGERPRINT]);
    await commands.run(["keys", "revoke", id, "--yes"]);
    const file = save(reportFromLicense(license, admin.clock.now()));
    expect(await commands.run(["usage", "import", file])).toMatchObject({
      status: 0,
      out: `Imported report 1 of ${OF}: 3 units; all keys of the license are revoked\n  ${originOf(licenseUuid)}\n  2026-11: 3 units; used 0 → 3\n`,
    });
  });

  test("lets a clock that is ahead pass with a reason", async () => {
    const { licenseUuid } = await issue();
    const file = save(createJournal(licenseUuid).next({ made_at: "2026-12-20T11:00:00Z" }));
    expect(await commands.run(["usage", "import", file])).toMatchObject({
      ...{
        status: 1,
        err: expect.stringContaining("; nothing was imported; add --clock-ahead and --reason TEXT if"),
      },
    });
    expect((await commands.run(["usage", "import", file, file, "--clock-ahead"])).status).toBe(2);
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
    expect(
      await commands.run(["usage", "import", file, "--clock-ahead", "--reason", "battery"]),
    ).toMatchObject({
      ...{ status: 0, out: expect.stringContaining("; the clock of its machine is ahead") },
    });
  });
});

describe("claviger usage import --license-out", () => {
  const sign = (file: string, out: string, ...more: string[]) =>
    commands.run(["usage", "import", file, "--license-out", out, ...more]);

  test("signs the next license of the machine, and says before what it takes", async () => {
    const { licenseUuid, id } = await issue({ tier: "research", maxMachines: 2 });
    const journal = createJournal(licenseUuid);
    const file = save(journal.next());
    const out = join(folder, "next.license");
    expect((await sign(file, out)).status).toBe(2);
    const announced =
      `The next license of the machine is for ${id}, valid until 2027-01-19T12:00:00Z\n` +
      "The machine gets a place of the license until 2027-01-19T12:00:00Z, also if it is released earlier: check its fingerprint\n";
    const options = ["--fingerprint", FINGERPRINT, "--days", "60"];
    expect(await sign(file, out, ...options, "--dry-run")).toMatchObject({
      ...{ status: 0, out: expect.stringContaining("Would import report 1 of"), err: announced },
    });
    expect(existsSync(out)).toBe(false);
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
    const signed = await sign(file, out, ...options);
    expect(signed).toMatchObject({
      status: 0,
      out: expect.stringContaining(`Wrote the next license of the machine to ${out}`),
    });
    expect(signed.err).toStartWith(announced);
    expect(signed.err).toContain("The license is valid until 2027-01-19T12:00:00Z");
    expect(statSync(out).mode & 0o777).toBe(0o600);
    expect(readFileSync(out, "utf8")).toContain(`Key: ${id}`);
    // A report again, such as after a crash, and another license.
    rmSync(out);
    const again = await sign(file, out, "--fingerprint", FINGERPRINT, "--key", id);
    expect(again).toMatchObject({ status: 0, out: expect.stringContaining("Already imported") });
  });

  test("imports nothing if the license or its file would be refused", async () => {
    const { licenseUuid, id } = await issue({ tier: "research" });
    const other = await issue();
    const file = save(createJournal(licenseUuid).next());
    const out = join(folder, "refused.license");
    const refusals = async (path: string, ...more: string[]) => {
      const { status, err } = await sign(file, path, ...more);
      expect([status, await usedOf(licenseUuid)]).toEqual([1, { used: 0, over: 0 }]);
      expect(err).toContain("; nothing was imported");
      return err;
    };
    const mine = ["--fingerprint", FINGERPRINT];
    expect(await refusals(out, "--fingerprint", "workstation-8")).toContain(
      "Cannot export license: the fingerprint is not that of the machine of the report",
    );
    expect(await refusals(join(folder, "none", "a"), ...mine)).toContain("there is no such folder");
    expect(await refusals(file, ...mine)).toContain(
      `${file} exists already; move it, or choose another name`,
    );
    expect(await refusals(join(file, "a"), ...mine)).toContain(
      `Cannot write into ${file}: there is no such folder`,
    );
    expect(await refusals(join(folder, "l".repeat(300)), ...mine)).toContain(`Cannot write into ${folder}: `);
    const dangling = join(folder, "dangling.license");
    symlinkSync(join(folder, "nowhere"), dangling);
    expect(await refusals(dangling, ...mine)).toContain(`${dangling} exists already`);
    expect(await refusals(out, ...mine, "--key", other.id)).toContain(`${other.id} is no key of the license`);
    const second = save(createJournal(other.licenseUuid).next());
    expect(
      await commands.run(["usage", "import", file, second, "--license-out", out, ...mine]),
    ).toMatchObject({ status: 1, err: expect.stringContaining("the reports are of several machines") });
    await commands.run(["keys", "suspend", id]);
    expect(await refusals(out, ...mine)).toContain("no key of the license is active");
    expect(await refusals(out, ...mine, "--key", id)).toContain(
      `the key is suspended; nothing was imported; \`claviger keys resume ${id}\` comes first`,
    );
    await commands.run(["keys", "revoke", id, "--yes"]);
    expect(await refusals(out, ...mine, "--key", id)).toContain("the key is revoked for good");
    expect(existsSync(out)).toBe(false);
  });

  test("signs no license if a report is refused", async () => {
    const { licenseUuid, id } = await issue();
    const journal = createJournal(licenseUuid);
    const [one, , three] = Array.from({ length: 3 }, () => save(journal.next()));
    const out = join(folder, "partial.license");
    const options = ["--license-out", out, "--fingerprint", FINGERPRINT, "--key", id];
    const dryRun = await commands.run(["usage", "import", one ?? "", three ?? "", ...options, "--dry-run"]);
    expect([dryRun.status, await usedOf(licenseUuid)]).toEqual([3, { used: 0, over: 0 }]);
    expect(dryRun.err).toEndWith(
      "Would refuse 1 of 2 reports; the others would be imported, and no license would be signed\n",
    );
    expect(dryRun.err).not.toContain("The next license of the machine is for");
    expect(await commands.run(["usage", "import", one ?? "", three ?? "", ...options])).toMatchObject({
      ...{ status: 3, err: expect.stringContaining("the others are imported, and no license is signed\n") },
    });
    expect(existsSync(out)).toBe(false);
  });

  test("says before which report will be refused and that no license is signed, and asks for the import alone", async () => {
    const { licenseUuid, id } = await issue({ maxMachines: 2 });
    const journal = createJournal(licenseUuid);
    const [one = "", , three = ""] = Array.from({ length: 3 }, () => save(journal.next()));
    const out = join(folder, "asked.license");
    const at = (answer: string, ...files: string[]) =>
      commands.run(["usage", "import", ...files, "--license-out", out, "--fingerprint", FINGERPRINT], {
        ...{ isTerminal: true, isTyped: true, input: `${answer}\n` },
      });
    const asked = await at("no", one, three);
    expect([asked.status, asked.out]).toEqual([
      1,
      expect.stringMatching(/^\S+: Would import report 1 of .*\n.*\n.*\n$/),
    ]);
    // From its first character to the question: nothing is said of a license and its place.
    expect(asked.err).toMatch(
      /^\S+: Cannot import report 3 of .*: report 2 of this machine is missing.*\nNo license will be signed, because 1 of 2 reports will be refused\nImport what is named above\? No command can undo this\. Type yes/,
    );
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
    expect(await at("yes", one, three)).toMatchObject({
      status: 3,
      err: expect.stringContaining("the others are imported, and no license is signed\n"),
    });
    // Nothing can be imported or signed, so there is no question.
    const none = await at("no", three);
    expect([none.status, none.out]).toEqual([1, ""]);
    expect(none.err).toMatch(/^\S*claviger:\S* \S+: Cannot import report 3 of .*; nothing was imported\n$/);
    // The report is known, and the license takes a place.
    const known = await at("no", one);
    expect(known.err).toContain("\nSign the license? No command can undo this. Type yes");
    expect(existsSync(out)).toBe(false);
    expect(await commands.json(["licenses", "outstanding", "--key", id])).toEqual([]);
  });

  test("signs no license that nobody agreed to, if the missing report comes while it asks", async () => {
    const { licenseUuid, id } = await issue();
    const journal = createJournal(licenseUuid);
    const [one = "", two = "", three = ""] = Array.from({ length: 3 }, () => save(journal.next()));
    const out = join(folder, "unasked.license");
    const args = ["usage", "import", one, three, "--license-out", out, "--fingerprint", FINGERPRINT];
    const { status, err } = await commands.run(args, {
      ...{ isTerminal: true, isTyped: true, input: "yes\n" },
      onAsked: () => commands.run(["usage", "import", one, two]),
    });
    expect([status, await usedOf(licenseUuid)]).toEqual([3, { used: 9, over: 0 }]);
    expect(err).toEndWith(
      "The reports are imported, but no license was signed, because a report was to be refused: run the command again\n",
    );
    expect(await commands.json(["licenses", "outstanding", "--key", id])).toEqual([]);
  });

  test("says that the license is signed if its file cannot be written", async () => {
    const { licenseUuid, id } = await issue();
    const file = save(createJournal(licenseUuid).next());
    // So many characters that the name of the unfinished file is too long, and that of the file itself is not.
    const out = join(folder, "l".repeat(250));
    const { status, out: printed, err } = await sign(file, out, "--fingerprint", FINGERPRINT, "--json");
    expect(status).toBe(3);
    const { reports, license, unwritten } = JSON.parse(printed);
    expect([reports, license]).toEqual([[expect.objectContaining({ outcome: "imported" })], null]);
    expect(err).toContain(
      `The reports are imported, but the file of the next license is not written to ${out}: `,
    );
    expect(err).toContain(
      "; the license is signed and noted all the same, so sign another one with `claviger licenses export`",
    );
    const rows = await admin.database.query<{ jti: string; kid: string }>(
      (sql) => sql`select jti, kid from exported_licenses where key_id = ${parseId("key", id) ?? ""}::uuid`,
    );
    expect(rows.map((row) => ({ ...row }))).toEqual([{ jti: unwritten.jti, kid: unwritten.kid }]);
    expect(unwritten).toEqual({
      ...{ path: null, kid: expect.any(String), jti: expect.any(String) },
      expires_at: expect.stringMatching(/^2027-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    });
  });

  test("replaces no file that appears while it asks, and says that the license is signed and noted", async () => {
    const { licenseUuid, id } = await issue({ maxMachines: 2 });
    const file = save(createJournal(licenseUuid).next());
    const out = join(folder, "appears.license");
    const args = ["usage", "import", file, "--license-out", out, "--fingerprint", FINGERPRINT];
    const { status, err } = await commands.run(args, {
      ...{ isTerminal: true, isTyped: true, input: "yes\n" },
      onAsked: () => writeFileSync(out, "the file of somebody else"),
    });
    expect([status, readFileSync(out, "utf8")]).toEqual([3, "the file of somebody else"]);
    expect(err).toEndWith(
      `The reports are imported, but the file of the next license is not written to ${out}: something else has got this name meanwhile, and stays as it is; the license is signed and noted all the same, so sign another one with \`claviger licenses export\`\n`,
    );
    expect(readdirSync(folder).filter((name) => name.includes("unfinished"))).toEqual([]);
    expect(await commands.json(["licenses", "outstanding", "--key", id])).toHaveLength(1);
  });
});
