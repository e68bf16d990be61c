/** Reports after a restore of either side, and after a kill between the commit and the answer. Each is counted once. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { parseId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import type { Database } from "../../../src/database/mod.ts";
import { eraseAccount } from "../../../src/licensing/mod.ts";
import { importReport } from "../../../src/usage/mod.ts";
import { backUp, restore } from "../../installation/backup/backup_kit.ts";
import { MUCH_ROOM } from "../../support/events.ts";
import { ACTOR, issue, NOW } from "../../support/issue.ts";
import { useTestDatabase } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { createJournal, parsed } from "./report_kit.ts";

const source = useTestDatabase();
const target = useTestDatabase({ empty: true });
const folder = useFolder();
const OPTIONS = { actor: ACTOR, now: NOW, textBounds: MUCH_ROOM };
const ANEW = {
  ...OPTIONS,
  allowed: { newJournal: true },
  actor: { ...ACTOR, reason: "The machine was restored" },
};

async function outcomeOf(
  database: Database,
  text: string,
  options: typeof OPTIONS = OPTIONS,
): Promise<string> {
  const result = await importReport(database, await parsed(text), options);
  return isRefusal(result)
    ? result.sentence.replace(/^Cannot import report \d+ of .+? \(.+?\): /, "")
    : result.outcome;
}

async function usedOf(database: Database, licenseUuid: string): Promise<number> {
  const [row] = await database.query<{ used: number }>(
    (sql) =>
      sql`select coalesce(sum(used), 0)::bigint as used from usage where license_id = ${licenseUuid}::uuid`,
  );
  return row?.used ?? 0;
}

test("An older state of the service takes the reports again that it has lost, in their order", async () => {
  const { licenseUuid } = await issue(source.database, {});
  const journal = createJournal(licenseUuid);
  const texts = Array.from({ length: 4 }, () => journal.next());
  const [one = "", two = "", three = "", four = ""] = texts;
  expect(await outcomeOf(source.database, one)).toBe("imported");
  expect(await outcomeOf(source.database, two)).toBe("imported");
  await backUp(source.address, join(folder, "backup"));
  expect(await outcomeOf(source.database, three)).toBe("imported");
  await restore(target.address, join(folder, "backup"));

  expect(await outcomeOf(target.database, four)).toBe(
    "report 3 of this machine is missing; import it first: the machine writes it again with `report-again 3 FILE`",
  );
  for (const text of [one, two]) expect(await outcomeOf(target.database, text)).toBe("known");
  for (const text of [three, four]) expect(await outcomeOf(target.database, text)).toBe("imported");
  expect(await usedOf(target.database, licenseUuid)).toBe(12);
});

test("An older state of the machine is a branch, which an operator can let begin anew", async () => {
  const { licenseUuid } = await issue(source.database, {});
  const journal = createJournal(licenseUuid);
  expect(await outcomeOf(source.database, journal.next())).toBe("imported");
  const saved = journal.save();
  expect(await outcomeOf(source.database, journal.next())).toBe("imported");
  journal.restore(saved);
  const branch = journal.next({ days: [{ day: "2026-11-19", count: 10 }] });
  expect(await outcomeOf(source.database, branch)).toContain("this one is none of those that were imported");
  expect(await usedOf(source.database, licenseUuid)).toBe(6);
  expect(await outcomeOf(source.database, branch, ANEW)).toBe("imported");
  expect(await outcomeOf(source.database, journal.next())).toBe("imported");
  expect(await usedOf(source.database, licenseUuid)).toBe(19);
});

test("A report whose answer was lost is known when it comes again", async () => {
  const { licenseUuid } = await issue(source.database, {});
  const text = createJournal(licenseUuid).next();
  const script = join(import.meta.dir, "import_in_process.ts");
  const child = Bun.spawn([process.execPath, script, JSON.stringify(source.address), text, "dies"], {
    ...{ stdout: "ignore", stderr: "inherit" },
  });
  await child.exited;
  expect(child.signalCode).toBe("SIGKILL");
  expect(await usedOf(source.database, licenseUuid)).toBe(3);
  expect(await outcomeOf(source.database, text)).toBe("known");
  expect(await usedOf(source.database, licenseUuid)).toBe(3);
});

test("An erased account leaves no name in the tables of reports, and its reports still count", async () => {
  const email = "grace.hopper@example.org";
  const { licenseUuid, userId } = await issue(source.database, { email, name: "Grace Hopper" });
  const journal = createJournal(licenseUuid);
  const event = { idempotency_key: "a", occurred_at: "2026-11-19T10:00:00Z", event_type: "inference" };
  const days = [{ day: "2026-11-19", count: 1 }];
  const clients = ["Grace Hopper 1.0"];
  expect(await outcomeOf(source.database, journal.next({ days, events: [event], clients }))).toBe("imported");
  await source.database.query(
    (sql) => sql`
      update keys set state = 'revoked', revoked_at = ${NOW}::timestamptz where license_id = ${licenseUuid}::uuid`,
  );
  const erased = await eraseAccount(source.database, parseId("usr", userId) ?? "", {
    actor: ACTOR,
    now: NOW,
  });
  expect(isRefusal(erased)).toBe(false);
  expect(await outcomeOf(source.database, journal.next())).toBe("imported");
  const rows = await source.database.query<{ row: string }>(
    (sql) => sql`
      select r::text || j::text as row from usage_reports r join usage_journals j on j.id = r.journal_id
       where j.license_id = ${licenseUuid}::uuid`,
  );
  expect(rows).toHaveLength(2);
  for (const { row } of rows) expect(row).not.toMatch(/grace|hopper/i);
  expect(await usedOf(source.database, licenseUuid)).toBe(4);
});
