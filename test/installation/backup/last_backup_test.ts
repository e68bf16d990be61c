/** What the database knows of its last backup, and what a backup leaves in its folder. */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import { migrations, openSession } from "../../../src/database/mod.ts";
import { findLastBackup, listTakenAt, MOST_TAKEN } from "../../../src/installation/backup/mod.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { createExternalDatabase } from "../../support/external_database.ts";
import { isRoot } from "../../support/is_root.ts";
import { sentenceOf } from "../../support/issue.ts";
import { TEST_SECRET } from "../../support/secrets.ts";
import { until } from "../../support/until.ts";
import { useForAll } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { backUp, restore, tryBackup } from "./backup_kit.ts";

const HOUR_MS = 3_600_000;
const [folder, others, busy] = [useFolder(), useFolder(), useFolder()];
const file = (name: string) => join(folder, name);
const source = useForAll(createExternalDatabase);
setDefaultTimeout(60_000);

beforeAll(async () => {
  for (const name of ["first", "second"]) await backUp(source.address, file(name));
});
const last = (now = new Date(), of: TestDatabase = source, overdueHours = 36) =>
  findLastBackup(of.database, { now, overdueHours });
const hoursAfter = (at: Date, hours: number) => new Date(at.getTime() + hours * HOUR_MS);

/** Runs a command of the program in a process of its own. */
function start(args: readonly string[]): Bun.Subprocess<"ignore", "pipe", "pipe"> {
  const command = [
    process.execPath,
    "src/main.ts",
    ...args,
    "--env-file=/dev/null",
    `--data-dir=${file("none")}`,
  ];
  return Bun.spawn(command, {
    cwd: join(import.meta.dir, "../../.."),
    env: { PATH: "/usr/bin:/bin", DATABASE_URL: source.url, CLAVIGER_SECRET: TEST_SECRET },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

describe("findLastBackup()", () => {
  test("finds none in a new database, and calls one overdue 36 hours after the database was made", async () => {
    await using fresh = await createTestDatabase();
    const { since, takenAt, verifiedAt, dueAt } = await last(undefined, fresh);
    expect([takenAt, verifiedAt]).toEqual([null, null]);
    expect(Math.abs(since.getTime() - Date.now())).toBeLessThan(24 * HOUR_MS);
    expect(dueAt).toEqual(hoursAfter(since, 36));
    const overdue = await Promise.all(
      [-1.1, -0.9, 0, 35.9, 36.1].map(
        async (hours) => (await last(hoursAfter(since, hours), fresh)).isOverdue,
      ),
    );
    expect(overdue).toEqual([true, false, false, false, true]);
    const withTimer = await Promise.all(
      [2.9, 3.1].map(async (hours) => (await last(hoursAfter(since, hours), fresh, 3)).isOverdue),
    );
    expect(withTimer).toEqual([false, true]);
  });

  test("finds the time of a backup that was read again, and then calls nothing overdue for 36 hours", async () => {
    const now = hoursAfter(new Date(), 1_000);
    expect((await last(now)).isOverdue).toBe(true);
    const { isVerified, notNoted } = await backUp(source.address, file("early"), { now });
    expect({ isVerified, notNoted }).toEqual({ isVerified: true, notNoted: undefined });
    expect(await last(now)).toMatchObject({ takenAt: now, verifiedAt: now, since: now, isOverdue: false });
    expect((await last(hoursAfter(now, 36.1))).isOverdue).toBe(true);
    // It was taken with a clock that was wrong: its time hides no missing backup.
    expect((await last()).isOverdue).toBe(true);
    const later = new Date();
    await backUp(source.address, file("late"), { now: later });
    expect(await last()).toMatchObject({ takenAt: later, isOverdue: false });
  });

  test("counts a backup to a pipe, which cannot be read again, as not verified", async () => {
    const before = await last();
    const piped = start(["backup", "-"]);
    await new Response(piped.stdout).arrayBuffer();
    expect(await new Response(piped.stderr).text()).toMatch(/^Saved \d+ rows? .* to standard output/);
    const { takenAt, verifiedAt } = await last();
    expect(takenAt?.getTime()).toBeGreaterThan(before.since.getTime());
    expect(verifiedAt).toEqual(before.verifiedAt);
  });

  test("finds none after a restore: the backup was taken of another database", async () => {
    await using target = await createTestDatabase({ empty: true });
    // The second backup was taken when the first one was noted.
    await restore(target.address, file("second"));
    expect(await last(new Date(), target)).toMatchObject({ takenAt: null, isOverdue: false });
  });

  test("leaves out a backup of an older schema, and one that the database cannot note", async () => {
    await using older = await createTestDatabase();
    await older.database.query((sql) => sql`drop table last_backup`);
    const unnoted = async () => (await backUp(older.address, file("older"), { replace: true })).notNoted;
    await older.database.query((sql) => sql`delete from schema_migrations where number >= 23`);
    expect(await unnoted()).toBe("its schema is older than this program");
    await source.database.query((sql) => sql`alter table last_backup rename to elsewhere`);
    const table = "last_backup";
    await source.database.query((sql) => sql`create view last_backup as select true as is_only`);
    expect((await backUp(source.address, file("view"))).notNoted).toContain(`"${table}"`);
    await source.database.query((sql) => sql`drop view last_backup`);
    await source.database.query((sql) => sql`alter table elsewhere rename to last_backup`);
  });
});

describe("writeBackup()", () => {
  test("replaces no file by one that was damaged while it was written, and does not note it", async () => {
    const [before, kept] = [await last(), readFileSync(file("second"))];
    const damaged = await tryBackup(source.address, file("second"), {
      replace: true,
      // Called when the file was made.
      lock: (fd) => writeSync(fd, "damage", 5_000_000) > 0,
    });
    expect(sentenceOf(damaged)).toStartWith("Cannot back up: the written file is wrong: ");
    expect(readFileSync(file("second"))).toEqual(kept);
    expect(await last()).toEqual(before);
    expect(readdirSync(folder).filter((name) => name.includes("unfinished"))).toEqual([]);
  });

  test("removes the unfinished files of ended backups, and nothing else", async () => {
    const at = (name: string) => join(others, name);
    const kept = [
      "a.unfinished-0123456",
      "a.unfinished-0123456g",
      "a.unfinished-01234567.old",
      ".unfinished-01234567",
    ];
    const ended = ["a.unfinished-01234567", "other.tar.zst.unfinished-abcdef01"];
    const held = "held.unfinished-00000000";
    for (const name of [...kept, ...ended, held, "new.unfinished-11111111", "target"])
      writeFileSync(at(name), "");
    mkdirSync(at("folder.unfinished-22222222"));
    symlinkSync(at("target"), at("link.unfinished-33333333"));
    if (isRoot("the unfinished file of another user")) {
      writeFileSync(at("foreign.unfinished-44444444"), "");
      chownSync(at("foreign.unfinished-44444444"), 65_534, 65_534);
    }
    for (const name of readdirSync(others).filter((each) => !each.startsWith("new")))
      utimesSync(at(name), 1, 1);
    const before = readdirSync(others);
    const fd = openSync(at(held), "r");
    expect(bunPlatform.lockOpenFile(fd)).toBe(true);
    await backUp(source.address, at("b"));
    expect(readdirSync(others).toSorted()).toEqual(
      [...before.filter((name) => !ended.includes(name)), "b"].toSorted(),
    );
    closeSync(fd);
    await backUp(source.address, at("c"));
    expect(readdirSync(others)).not.toContain(held);
  });

  test("leaves the file of a running backup, and removes it after that backup was killed", async () => {
    const session = openSession(source.address, { statementTimeoutMs: 60_000 });
    const drafts = () => readdirSync(busy).filter((name) => name.startsWith("slow.unfinished-"));
    const age = () => {
      for (const name of drafts()) utimesSync(join(busy, name), 1, 1);
    };
    let slow: ReturnType<typeof start> | undefined;
    await session.transaction(async (sql) => {
      await sql`lock table claims in access exclusive mode`;
      slow = start(["backup", join(busy, "slow")]);
      await until(() => drafts().length === 1, { limitMs: 30_000 });
      age();
      expect(sentenceOf(await tryBackup(source.address, join(busy, "b"), { lockWaitMs: 50 }))).toContain(
        "another process is changing the tables",
      );
      expect(drafts()).toHaveLength(1);
      slow.kill("SIGKILL");
      await slow.exited;
    });
    await session.close();
    expect(drafts()).toHaveLength(1);
    age();
    await backUp(source.address, join(busy, "b"));
    expect(readdirSync(busy)).toEqual(["b"]);
  });
});

describe("listTakenAt()", () => {
  const day = (day: number) => new Date(Date.UTC(2027, 0, day));
  const takenIn = async (of: TestDatabase) =>
    (await listTakenAt(of.database, { from: day(1), to: day(1_000) })).map((at) => at.toISOString());

  test("lists each backup of a span, and forgets times that a wrong clock wrote", async () => {
    await using fresh = await createTestDatabase();
    const at = (hour: number) => new Date(day(5).getTime() + hour * HOUR_MS);
    for (const [index, hour] of [0, 1, 20, 1.5].entries())
      await backUp(fresh.address, file(`taken-${index}`), { now: at(hour) });
    expect(await takenIn(fresh)).toEqual([at(0), at(1), at(1.5)].map((taken) => taken.toISOString()));
    const some = await listTakenAt(fresh.database, { from: at(1), to: at(1.5) });
    expect(some).toEqual([at(1)]);
  });

  test(`keeps the last ${MOST_TAKEN} times`, async () => {
    await using fresh = await createTestDatabase();
    await fresh.database.query(
      (sql) => sql`
        insert into taken_backups (at)
        select ${day(1)}::timestamptz + n * interval '1 day' from generate_series(0, ${MOST_TAKEN}::integer - 1) as n`,
    );
    await backUp(fresh.address, file("one-more"), { now: day(MOST_TAKEN + 1) });
    const taken = await takenIn(fresh);
    expect([taken.length, taken[0], taken.at(-1)]).toEqual([
      ...[MOST_TAKEN, day(2).toISOString(), day(MOST_TAKEN + 1).toISOString()],
    ]);
  });
});

test("the alert rule of the manual says what findLastBackup() says", () => {
  const rules = readFileSync(join(import.meta.dir, "../../../src/cli/guide/alerts.yml"), "utf8");
  expect(rules).toContain("time() > claviger_backup_due_timestamp_seconds");
  expect(rules).toContain("claviger_last_backup_timestamp_seconds - time() > 3600");
  expect(migrations.some(({ name }) => name.endsWith("_last_backup"))).toBe(true);
});
