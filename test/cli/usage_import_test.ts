/** `claviger usage import`: files in any order, each once, what it says before, and the next license of the machine. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { monthOf } from "../../src/base/calendar.ts";
import { toId } from "../../src/base/ids.ts";
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

function nameOf(licenseUuid: string, number: number): string {
  const { hash } = nameMachine(licenseUuid, FINGERPRINT);
  return `report ${number} of ${toId("lic", licenseUuid)}, machine ${hash.slice(0, 8)}…`;
}

describe("claviger usage import", () => {
  test("imports files in any order, and says the same before, then and again", async () => {
    const { licenseUuid } = await admin.issue({ monthlyLimit: 4 });
    const journal = createJournal(licenseUuid);
    const files = [save(journal.next()), save(journal.next())].reverse();
    const lines = (first: string, second: string) =>
      [
        `${first}${nameOf(licenseUuid, 1)}: 3 units`,
        "  2026-11: 3 units; used 0 → 3",
        `${second}${nameOf(licenseUuid, 2)}: 3 units, 2 of them beyond the limit`,
        "  2026-11: 3 units; used 3 → 4, over 0 → 2",
        "",
      ].join("\n");
    const before = await commands.run(["usage", "import", ...files, "--dry-run"]);
    expect(before).toMatchObject({ status: 0, out: lines("Would import ", "Would import ") });
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
    expect(await commands.run(["usage", "import", ...files])).toMatchObject({
      ...{ status: 0, out: lines("Imported ", "Imported "), err: "" },
    });
    const known = "Already imported at 2026-11-20T12:00:00Z: ";
    expect(await commands.run(["usage", "import", ...files])).toMatchObject({ out: lines(known, known) });
    expect(await usedOf(licenseUuid)).toEqual({ used: 4, over: 2 });
  });

  test("prints JSON as the API answers it", async () => {
    const { licenseUuid } = await admin.issue();
    const text = createJournal(licenseUuid).next();
    const file = save(text);
    const { reports, license } = await commands.json(["usage", "import", file]);
    const { status, body } = await admin.call("POST", "/usage/reports", { file: text });
    expect(status).toBe(200);
    expect({ reports, license }).toEqual({
      reports: [{ file, ...body, outcome: "imported" }],
      license: null,
    });
  });

  test("says which report is missing, and imports the others", async () => {
    const [one, two] = [await admin.issue(), await admin.issue()];
    const [first, second] = [createJournal(one.licenseUuid), createJournal(two.licenseUuid)];
    first.next();
    const [late, whole] = [save(first.next()), save(second.next())];
    const missing =
      "Cannot import report 2: report 1 of this machine is missing; import it first: the machine can write it again";
    expect(await commands.run(["usage", "import", late])).toMatchObject({
      ...{ status: 1, err: `claviger: ${missing}\n` },
    });
    expect(await commands.run(["usage", "import", late, whole, "--dry-run"])).toMatchObject({ status: 1 });
    expect(await commands.run(["usage", "import", late, whole])).toMatchObject({
      ...{ status: 3, out: expect.stringContaining(`Imported ${nameOf(two.licenseUuid, 1)}`) },
      err: `${late}: ${missing}\nclaviger: Refused 1 of 2 reports; the others are imported\n`,
    });
    expect(await commands.run(["usage", "import", late, late])).toMatchObject({
      ...{ status: 1, err: expect.stringContaining("Refused 2 of 2 reports: nothing was imported") },
    });
  });

  test("imports nothing if one file is no report", async () => {
    const { licenseUuid } = await admin.issue();
    const [good, wrong] = [save(createJournal(licenseUuid).next()), save("no report")];
    expect(await commands.run(["usage", "import", good, wrong])).toMatchObject({
      status: 1,
      err: expect.stringContaining(`${wrong}: Cannot import report: the text is no report of use`),
    });
    expect(await commands.run(["usage", "import", join(folder, "none")])).toMatchObject({
      ...{ status: 1, err: expect.stringContaining("Cannot read") },
    });
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
  });

  test("begins another journal with a reason alone", async () => {
    const { licenseUuid } = await admin.issue();
    await commands.run(["usage", "import", save(createJournal(licenseUuid).next())]);
    const other = save(createJournal(licenseUuid, { journal: OTHER_JOURNAL }).next());
    const fork = await commands.run(["usage", "import", other]);
    expect(fork.status).toBe(1);
    expect(fork.err).toContain(
      "; add --new-journal and --reason TEXT if that is meant, such as after a restore of the machine",
    );
    expect((await commands.run(["usage", "import", other, "--new-journal"])).status).toBe(2);
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
    const { id, licenseUuid } = await admin.issue();
    const { license } = await commands.json(["licenses", "export", id, "--fingerprint", FINGERPRINT]);
    await commands.run(["keys", "revoke", id, "--yes"]);
    const file = save(reportFromLicense(license, admin.clock.now()));
    expect(await commands.run(["usage", "import", file])).toMatchObject({
      status: 0,
      out: expect.stringContaining(`${nameOf(licenseUuid, 1)}: 3 units; all keys of the license are revoked`),
    });
  });

  test("signs the next license of the machine, and no license for another one", async () => {
    const { licenseUuid, id } = await admin.issue({ tier: "research" });
    const journal = createJournal(licenseUuid);
    const file = save(journal.next());
    const out = join(folder, "next.license");
    const sign = (...more: string[]) =>
      commands.run(["usage", "import", file, "--license-out", out, ...more]);
    expect((await sign()).status).toBe(2);
    expect(await sign("--fingerprint", "workstation-8")).toMatchObject({
      status: 1,
      err: expect.stringContaining(
        "Cannot sign the next license: the fingerprint is not that of the machine of the report; nothing was imported",
      ),
    });
    expect(await usedOf(licenseUuid)).toEqual({ used: 0, over: 0 });
    const signed = await sign("--fingerprint", FINGERPRINT, "--days", "60");
    expect(signed).toMatchObject({
      status: 0,
      out: expect.stringContaining(`Wrote the next license of the machine to ${out}`),
      err: expect.stringContaining("The license is valid until 2027-01-19T12:00:00Z"),
    });
    expect(statSync(out).mode & 0o777).toBe(0o600);
    expect(readFileSync(out, "utf8")).toContain(`Key: ${id}`);
    // A report again, such as after a crash, and another license.
    expect(await sign("--fingerprint", FINGERPRINT)).toMatchObject({
      status: 1,
      err: expect.stringContaining(`${out} exists; nothing was imported`),
    });
    rmSync(out);
    const again = await sign("--fingerprint", FINGERPRINT, "--key", id);
    expect(again).toMatchObject({ status: 0, out: expect.stringContaining("Already imported") });
    rmSync(out);
    await commands.run(["keys", "suspend", id]);
    expect(await sign("--fingerprint", FINGERPRINT)).toMatchObject({
      status: 1,
      err: expect.stringContaining("no key of the license is active; nothing was imported"),
    });
    const last = save(journal.next());
    const late = ["usage", "import", last, "--license-out", out, "--fingerprint", FINGERPRINT, "--key", id];
    expect(await commands.run(late)).toMatchObject({
      status: 3,
      err: expect.stringContaining(
        "The reports are imported, but no license was written: Cannot export license: the key is suspended",
      ),
    });
    expect(await usedOf(licenseUuid)).toEqual({ used: 6, over: 0 });
    expect(existsSync(out)).toBe(false);
  });
});
