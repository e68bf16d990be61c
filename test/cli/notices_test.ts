/** `claviger notices …` while a service runs. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { monthOf } from "../../src/base/calendar.ts";
import { systemClock } from "../../src/base/clock.ts";
import { withDatabase } from "../../src/cli/run.ts";
import { makeNotices } from "../../src/notices/mod.ts";
import { SETTINGS } from "../notices/notices_kit.ts";
import { createIssuer, createTestInvocation, refusalOf, usageErrorOf } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line } = useServing();
const issue = createIssuer(line);

/** Lets the license of a new key have used its quota up, and makes the notice. */
async function makeNotice() {
  const { id } = await issue();
  const { license_id, email } = await line.json(["keys", "show", id]);
  await line.json(["keys", "limit", id, "10"]);
  const { invocation } = createTestInvocation(line.folder, {});
  const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
  const { firstDay } = monthOf(Date.now());
  await withDatabase(invocation, place, async ({ database }) => {
    await database.query(
      (sql) => sql`
        insert into usage (license_id, month, used) values (${license_id.slice(4)}::uuid, ${firstDay}::date, 10)`,
    );
    await makeNotices({ database, clock: systemClock, isStopping: () => false }, SETTINGS);
  });
  const [notice] = await line.json(["notices", "list", "--license", license_id]);
  return { notice, license: license_id, email };
}

const dayIn = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

test("claviger notices list, show, remind and done say what they show and change", async () => {
  const { notice, license, email } = await makeNotice();
  expect(await line.json(["notices", "show", notice.id])).toEqual(notice);
  const { out } = await line.here(["notices", "list", "--account", email], { columns: 80 });
  expect(out).toContain("has used its quota up:\n  10 of 10");
  for (const row of out.split("\n")) expect(row.length).toBeLessThanOrEqual(80);

  const on = dayIn(7);
  const put = await line.here(["notices", "remind", notice.id, "--on", on]);
  expect(put.out).toBe(`Put ${notice.id} off until ${on}\n`);
  expect(await line.json(["notices", "list", "--license", license])).toEqual([]);
  const [later] = await line.json(["notices", "list", "--license", license, "--state", "later"]);
  expect(later).toMatchObject({ id: notice.id, remind_at: `${on}T00:00:00Z` });

  const done = ["notices", "done", notice.id, "--reason", "the customer knows"];
  expect((await line.here(done)).out).toBe(`Marked ${notice.id} as done\n`);
  expect(await line.json(done)).toEqual({ id: notice.id, state: "done", changed: false });
  expect(await line.json(["notices", "list", "--license", license, "--state", "all"])).toMatchObject([
    { state: "done", closed_by: expect.stringMatching(/^command:/) },
  ]);
});

test("claviger notices mute, muted and unmute say what they change", async () => {
  const { license, email } = await makeNotice();
  const muted = await line.here(["notices", "mute", "--license", license, "--reason", "a test"]);
  expect(muted.out).toStartWith(`Muted ${license}: no notice is made for it`);
  expect(await line.json(["notices", "muted"])).toMatchObject([
    { license_id: license, email, muted_by: expect.stringMatching(/^command:/) },
  ]);
  const again = await line.here(["notices", "unmute", "--account", email]);
  expect(again.out).toMatch(/^Nothing changed: usr_\S+ was not muted\n$/);
  expect(await line.json(["notices", "unmute", "--license", license])).toEqual({
    id: license,
    muted: false,
    changed: true,
  });
  expect(usageErrorOf(await line.here(["notices", "mute"]))).toContain("give either --account or --license");
});

test("claviger notices refuses what it cannot do", async () => {
  const { notice } = await makeNotice();
  expect(refusalOf(await line.here(["notices", "remind", notice.id, "--on", "2020-01-01"]))).toBe(
    "Cannot put off notice: the day must lie ahead",
  );
  const unknown = `ntc_${"0".repeat(32)}`;
  expect(refusalOf(await line.here(["notices", "done", unknown]))).toBe(
    `Cannot mark notice as done: there is no notice ${unknown}`,
  );
  expect(usageErrorOf(await line.here(["notices", "remind", notice.id, "--on", "soon"]))).toContain("--on");
});
