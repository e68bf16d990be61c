/** Whose backups a folder has: a database that may stand in place of lost data adds none without a word. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, existsSync, readFileSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { isRefusal } from "../../../src/base/refusal.ts";
import { findLastBackup } from "../../../src/installation/backup/mod.ts";
import { proveSecret } from "../../../src/installation/mod.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { NOW, orThrow } from "../../support/issue.ts";
import { openSecrets } from "../../support/secrets.ts";
import { type AddOptions, nameAt, START, useBackupFolder } from "./folder_kit.ts";

setDefaultTimeout(60_000);
const kit = useBackupFolder();
const { add, addFrom, listed } = kit;
const FIXTURE = join(import.meta.dir, "fixtures/0.1.0.tar.zst");

/** Makes a database without keys, as a first start does; without `isSealed`, as `migrate` alone does. */
async function createEmpty({ isSealed = true } = {}) {
  const made = await createTestDatabase();
  if (isSealed) expect(await proveSecret(made.database, openSecrets(), NOW)).toBeUndefined();
  return made;
}

/** Adds a backup, and returns the sentence and the code of the refusal, or undefined. */
async function tryFrom(from: TestDatabase, options: AddOptions): Promise<readonly string[] | undefined> {
  const outcome = await addFrom(from, { secret: undefined, ...options });
  return isRefusal(outcome) ? [outcome.code, outcome.sentence] : undefined;
}

const accepted = () => join(kit.folder, "accepted-installations");

describe("addBackup() into a folder with backups of another installation", () => {
  test("refuses a new installation, changes nothing, and is then overdue", async () => {
    const { path } = await add();
    const before = [listed(), readFileSync(path)];
    await using fresh = await createEmpty();
    expect(await tryFrom(fresh, { hours: 1, keep: "1h" })).toEqual([
      "DATA_LOST",
      `Cannot back up into ${kit.folder}: it has backups of another installation, the newest of 2026-11-27 with 11 keys, ` +
        `and this database is new there and has no key; if its data was lost, \`claviger restore ${kit.folder}/\` lists ` +
        "the backups; if both are to keep their backups there, give --into-shared-folder once",
    ]);
    expect([listed(), readFileSync(path)]).toEqual(before);
    const last = await findLastBackup(fresh.database, { now: NOW, overdueHours: 36 });
    expect(last).toMatchObject({ takenAt: null });
  });

  test("accepts it once with --into-shared-folder, remembers it, and refuses the next one", async () => {
    await add();
    await using fresh = await createEmpty();
    await using other = await createEmpty();
    expect(await tryFrom(fresh, { hours: 1, intoSharedFolder: true })).toBeUndefined();
    // Also after its backups were moved away.
    rmSync(join(kit.folder, nameAt(4)));
    expect(await tryFrom(fresh, { hours: 2 })).toBeUndefined();
    expect(statSync(accepted()).mode & 0o777).toBe(0o600);
    expect(await tryFrom(other, { hours: 3 })).toMatchObject([
      "DATA_LOST",
      expect.stringContaining("is new there"),
    ]);
    await add({ hours: 4 });
    expect(listed()).toEqual(["accepted-installations", nameAt(3), nameAt(5), nameAt(7)]);
  });

  test("refuses one that is known there but has no key, while the newest backup of another one has some", async () => {
    await using fresh = await createEmpty();
    expect(await tryFrom(fresh, {})).toBeUndefined();
    await add({ hours: 1, intoSharedFolder: true });
    const refused = await tryFrom(fresh, { hours: 2 });
    expect(refused).toMatchObject([
      "DATA_LOST",
      expect.stringContaining(
        "of another installation, the newest of 2026-11-27 with 11 keys, and this database has no key;",
      ),
    ]);
    // One with keys goes on beside another one, without a word.
    rmSync(accepted());
    await add({ hours: 3 });
    expect(await tryFrom(fresh, { hours: 4, intoSharedFolder: true })).toBeUndefined();
    expect(await tryFrom(fresh, { hours: 5 })).toBeUndefined();
  });

  test("goes by the keys of a backup that does not say whose it is, and never removes it", async () => {
    for (const name of ["1.tar.zst", "claviger-2025-01-01T000000Z.tar.zst"])
      copyFileSync(FIXTURE, join(kit.folder, name));
    const before = listed();
    await using fresh = await createEmpty();
    expect(await tryFrom(fresh, {})).toMatchObject([
      "DATA_LOST",
      expect.stringMatching(
        /: it has backups that do not say of which installation they are, the newest of \S+ with \d+ keys, and this database has no key;/,
      ),
    ]);
    await add({ keep: "1h" });
    await add({ hours: 2, keep: "1h" });
    expect(listed()).toEqual([...before, nameAt(5)].toSorted());
  });

  test("refuses a database without keys beside a backup that cannot be read, and admits one with keys", async () => {
    const name = "1.tar.zst";
    copyFileSync(FIXTURE, join(kit.folder, name));
    truncateSync(join(kit.folder, name), 500);
    await using fresh = await createEmpty();
    expect(await tryFrom(fresh, {})).toEqual([
      "DATA_LOST",
      expect.stringMatching(
        /: this database has no key, and 1\.tar\.zst there cannot be read \(.+\), so nobody can tell whose backup it is; /,
      ),
    ]);
    expect(listed()).toEqual([name]);
    await add({});
    rmSync(join(kit.folder, nameAt(3)));
    expect(await tryFrom(fresh, { intoSharedFolder: true })).toBeUndefined();
  });

  test("knows no installation that has sealed nothing yet, and removes no backup of one", async () => {
    await using one = await createEmpty({ isSealed: false });
    await using two = await createEmpty({ isSealed: false });
    expect(await tryFrom(one, { keep: "1h" })).toBeUndefined();
    expect(await tryFrom(two, { hours: 2, keep: "1h" })).toBeUndefined();
    expect(listed()).toEqual([nameAt(3), nameAt(5)]);
    await add({ hours: 3 });
    expect(await tryFrom(one, { hours: 4 })).toMatchObject(["DATA_LOST", expect.anything()]);
    expect(await tryFrom(one, { hours: 4, intoSharedFolder: true })).toBeUndefined();
    expect(existsSync(accepted())).toBe(false);
  });
});

test("a backup tells its installation and its keys in its head", async () => {
  const { head } = await add();
  await using fresh = await createEmpty();
  const other = orThrow(await addFrom(fresh, { secret: undefined, hours: 1, intoSharedFolder: true }));
  expect(head).toMatchObject({ keys: 11, installation: expect.stringMatching(/^[0-9a-f]{64}$/) });
  expect(other.head.keys).toBe(0);
  expect(other.head.installation).not.toBe(head.installation ?? null);
  expect(head.made_at).toBe(START.toISOString());
});
