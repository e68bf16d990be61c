/** A folder of backups, in which model files are kept once: what is written, what is removed, and what stays. */
import { beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { migrations } from "../../../src/database/mod.ts";
import { headSchema } from "../../../src/installation/backup/format.ts";
import { addBackup, KEEP_RULE, type Progress, verifyBackup } from "../../../src/installation/backup/mod.ts";
import { modelsFolderOf, pathOfFile } from "../../../src/models/mod.ts";
import { mountSmallDisk, whyNoSmallDisk } from "../../crash_test/small_disk.ts";
import { createTestDatabase } from "../../support/database.ts";
import { orThrow, sentenceOf } from "../../support/issue.ts";
import { TEST_SECRET } from "../../support/secrets.ts";
import { until } from "../../support/until.ts";
import { useForEach } from "../../support/use.ts";
import { backUp, dump, fill, MODEL_BYTES, otherSecret, prove, tryRestore, watch } from "./backup_kit.ts";
import { FIRST, HOUR_MS, nameAt, proveBeside, START, useBackupFolder } from "./folder_kit.ts";

setDefaultTimeout(60_000);
const kit = useBackupFolder();
const { place, dataDir, source, addModel, forgetModel } = kit;
const { tryAdd, add, listed, kept, expectWhole, inFolder } = kit;

/** Changes the unfinished files of a folder while they are written. */
function spoil(at: string): void {
  for (const name of readdirSync(at).filter((each) => each.includes("unfinished-"))) {
    const fd = openSync(join(at, name), "r+");
    writeSync(fd, "spoiled", 100);
    closeSync(fd);
  }
}

describe("addBackup()", () => {
  test("makes the folder, and writes a backup and each model file once, closed to others", async () => {
    kit.folder = join(kit.folder, "new");
    const first = await add();
    expect(first).toMatchObject({ path: join(kit.folder, nameAt(3)), isVerified: true, notNoted: undefined });
    expect(first.head).toMatchObject({
      format_version: 3,
      models: false,
      beside: { files: [{ sha256: FIRST, bytes: 6 }] },
    });
    expect(statSync(kit.folder).mode & 0o777).toBe(0o700);
    expect(statSync(first.path).mode & 0o777).toBe(0o600);
    expect(statSync(inFolder(FIRST)).mode & 0o007).toBe(0);
    const { ino } = statSync(inFolder(FIRST));
    await add({ hours: 1 });
    expect(listed()).toEqual([nameAt(3), nameAt(4)]);
    expect(statSync(inFolder(FIRST)).ino).toBe(ino);
    await expectWhole();
  });

  test("would not use a backup whose time is none", async () => {
    const { head } = await add();
    expect(v.is(headSchema, head)).toBe(true);
    expect(v.is(headSchema, { ...head, made_at: "yesterday" })).toBe(false);
  });

  test("writes a single file with the model files in it, and nothing beside it", async () => {
    const { head } = await backUp(source.address, join(kit.folder, "single"), { models: { dataDir } });
    expect([head.format_version, head.models, "beside" in head]).toEqual([3, true, false]);
    expect(existsSync(join(kit.folder, "models"))).toBe(false);
  });

  test("removes what --keep does not keep, and then the model files that no backup needs", async () => {
    const second = await addModel("purged", Buffer.from("purged"));
    await add();
    await forgetModel(second);
    const later = await add({ hours: 1, keep: "2h" });
    expect(later.removed).toEqual({ backups: 0, models: 0, warnings: [] });
    expect(kept()).toEqual([FIRST, second].toSorted());
    const last = await add({ hours: 2, keep: "2h" });
    expect(last.removed).toEqual({ backups: 1, models: 1, warnings: [] });
    expect([listed(), kept()]).toEqual([[nameAt(4), nameAt(5)], [FIRST]]);
  });

  test("removes nothing when the new backup fails", async () => {
    await add();
    const damaged = await tryAdd({ hours: 5, keep: "1h", secret: otherSecret() });
    expect(sentenceOf(damaged)).toContain("another secret sealed the database");
    expect(listed()).toEqual([nameAt(3)]);
    await add({ hours: 5, keep: "1h" });
    expect(listed()).toEqual([nameAt(8)]);
  });

  test("gives no name to a backup that reads back with other bytes, and then removes nothing", async () => {
    await add();
    const second = await addModel("of two chunks", Buffer.alloc(1_500_000));
    const onProgress = ({ what }: Progress) => {
      if (what === "keys") spoil(kit.folder);
    };
    const refused = await tryAdd({ hours: 5, keep: "1h", watch: { onProgress } });
    expect(sentenceOf(refused)).toStartWith(
      "Cannot back up: the written file is wrong: Cannot use the backup ",
    );
    expect(listed()).toEqual([nameAt(3)]);
    expect(kept()).toEqual([FIRST, second].toSorted());
    await forgetModel(second);
  });

  test("gives no name to the copy of a model file that reads back with other bytes, and names the file", async () => {
    const second = await addModel("spoiled", Buffer.alloc(1_500_000));
    const onProgress = ({ doing, what, done }: Progress) => {
      if (doing === "saving" && what === `models/${second}` && done === 1_500_000)
        spoil(join(kit.folder, "models"));
    };
    const { head } = await add({ watch: { onProgress } });
    const why = `the copy in ${join(kit.folder, "models")} reads back changed`;
    expect(head.missing_models).toEqual([{ sha256: second, bytes: 1_500_000, versions: ["spoiled 1"], why }]);
    expect(kept()).toEqual([FIRST]);
    await expectWhole();
    await forgetModel(second);
  });

  test("leaves files of the operator, and backups that were renamed or came from another installation", async () => {
    await add();
    const own = join(kit.folder, nameAt(3));
    // A backup that an operator wants to keep, and what it needs.
    copyFileSync(own, join(kit.folder, "before-upgrade.tar.zst"));
    copyFileSync(own, join(kit.folder, "claviger-2020-01-01T000000Z.tar.zst"));
    await backUp(source.address, join(kit.folder, "1.tar.zst"), { models: { dataDir } });
    writeFileSync(join(kit.folder, "notes.txt"), "mine");
    symlinkSync("notes.txt", join(kit.folder, "claviger-2020-01-02T000000Z.tar.zst"));
    mkdirSync(join(kit.folder, "claviger-2020-01-03T000000Z.tar.zst"));
    writeFileSync(join(kit.folder, "models/README"), "mine");
    await using other = await createTestDatabase();
    await fill(other.database);
    const ofOther = await addBackup(other.address, {
      ...{
        folder: kit.folder,
        models: { dataDir },
        keep: KEEP_RULE.parse("1h"),
        lock: bunPlatform.lockOpenFile,
      },
      ...{ tryLock: bunPlatform.tryLock, migrations, version: "0.4.0", brand: "svc", watch },
      clock: { now: () => new Date(START.getTime() + HOUR_MS) },
      intoSharedFolder: true,
    });
    expect(orThrow(ofOther).removed).toMatchObject({ backups: 0 });
    const before = listed();
    expect(before).toHaveLength(9);
    const { removed } = await add({ hours: 2, keep: "1h" });
    expect(removed).toEqual({ backups: 1, models: 0, warnings: [] });
    expect(listed()).toEqual([...before.filter((name) => name !== nameAt(3)), nameAt(5)].toSorted());
    expect(kept()).toEqual([FIRST, "README"].toSorted());
  });

  test("removes no file through a link", async () => {
    const second = await addModel("linked", Buffer.from("linked"));
    await add();
    await forgetModel(second);
    const elsewhere = mkdtempSync(join(place, "elsewhere-"));
    renameSync(dirname(inFolder(second)), join(elsewhere, "files"));
    symlinkSync(join(elsewhere, "files"), dirname(inFolder(second)));
    const { removed } = await add({ hours: 1, keep: "1h" });
    expect(removed).toMatchObject({ backups: 1, models: 0 });
    expect(existsSync(join(elsewhere, "files", second))).toBe(true);
  });

  test.skipIf(process.getuid?.() !== 0)(
    "refuses root a folder in which another user can put links",
    async () => {
      const other = 65_534;
      const refusal =
        `Cannot back up: another user can change what is in ${kit.folder} or above it, and root could be led elsewhere; run ` +
        "this as that user, or choose another folder";
      chownSync(kit.folder, other, other);
      expect(sentenceOf(await tryAdd())).toBe(refusal);
      expect(readdirSync(kit.folder)).toEqual([]);
      chownSync(kit.folder, 0, 0);
      mkdirSync(join(kit.folder, "models"));
      chownSync(join(kit.folder, "models"), other, other);
      expect(sentenceOf(await tryAdd())).toBe(refusal);
      chownSync(join(kit.folder, "models"), 0, 0);
      await add();
    },
  );

  test.skipIf(process.getuid?.() !== 0)(
    "refuses root a folder in which everybody can make files, also with the sticky bit, and writes nothing there",
    async () => {
      for (const mode of [0o1777, 0o1775]) {
        chmodSync(kit.folder, mode);
        expect(sentenceOf(await tryAdd())).toBe(
          `Cannot back up: other users can make files in ${kit.folder}, such as the lock of a backup; ` +
            `\`chmod go-w ${kit.folder}\`, or choose another folder`,
        );
        expect(readdirSync(kit.folder)).toEqual([]);
      }
      // A folder of root's own below it is good.
      await add({ folder: join(kit.folder, "mine") });
      chmodSync(kit.folder, 0o755);
      await add();
    },
  );

  test("replaces no backup that another installation made in the same second", async () => {
    const { path } = await add();
    const before = readFileSync(path);
    expect(sentenceOf(await tryAdd({ secret: undefined }))).toBe(
      `Cannot back up: ${path} was made in the same second; try again`,
    );
    expect(readFileSync(path)).toEqual(before);
  });

  test("that is refused because another one runs leaves the unfinished files of that one", async () => {
    await add();
    const unfinished = join(kit.folder, "models", `unfinished-${"0".repeat(16)}`);
    // A large file, which takes more than an hour to read again.
    writeFileSync(unfinished, "");
    utimesSync(unfinished, 1, 1);
    const lock = bunPlatform.tryLock(join(kit.folder, ".lock"));
    expect(isRefusal(await tryAdd({ hours: 1 }))).toBe(true);
    expect(existsSync(unfinished)).toBe(true);
    lock?.release();
    await add({ hours: 1 });
    expect(existsSync(unfinished)).toBe(false);
  });

  test("keeps every model file while a backup cannot be read, and says which one", async () => {
    const second = await addModel("doubtful", Buffer.from("doubtful"));
    await add();
    await forgetModel(second);
    truncateSync(join(kit.folder, nameAt(3)), 500);
    const { removed } = await add({ hours: 1, keep: "1h" });
    expect(removed).toMatchObject({ backups: 0, models: 0 });
    expect("warnings" in removed ? removed.warnings : []).toEqual([
      expect.stringContaining(
        `${join(kit.folder, nameAt(3))} cannot be used (it is no backup of Claviger, or it was cut`,
      ),
    ]);
    expect(kept()).toEqual([FIRST, second].toSorted());
    rmSync(join(kit.folder, nameAt(3)));
    expect((await add({ hours: 2, keep: "1h" })).removed).toEqual({ backups: 1, models: 1, warnings: [] });
  });

  test("counts no backup of the future, so that a wrong clock displaces none", async () => {
    await add({ hours: 240 });
    for (const hours of [0, 1, 2]) await add({ hours, keep: "2h" });
    await add({ hours: 3, keep: "2h" });
    expect(listed()).toEqual([nameAt(5), nameAt(6), "claviger-2026-12-07T030005Z.tar.zst"]);
  });

  test("refuses a second backup at once, and every data folder", async () => {
    await add();
    const lock = bunPlatform.tryLock(join(kit.folder, ".lock"));
    expect(sentenceOf(await tryAdd({ hours: 1 }))).toBe(
      `Cannot back up: another backup into ${kit.folder} is running, or its file system has no locks; try again when it has ended`,
    );
    lock?.release();
    expect(sentenceOf(await tryAdd({ folder: dataDir }))).toBe(
      `Cannot back up: ${dataDir} is the data folder itself; choose another folder`,
    );
    symlinkSync(dataDir, join(kit.folder, "link"));
    expect(sentenceOf(await tryAdd({ folder: join(kit.folder, "link") }))).toContain(
      "is the data folder itself",
    );
    for (const name of ["postgres", "serving"]) {
      const other = mkdtempSync(join(place, "other-"));
      mkdirSync(join(other, name));
      expect(sentenceOf(await tryAdd({ folder: other }))).toBe(
        `Cannot back up: ${other} is a data folder; choose another folder`,
      );
      expect(readdirSync(other)).toEqual([name]);
    }
    writeFileSync(join(kit.folder, "file"), "");
    expect(sentenceOf(await tryAdd({ folder: join(kit.folder, "file/x") }))).toContain(
      "a part of that path is a file",
    );
  });

  test("of which two run at once, one writes and the other is refused", async () => {
    const outcomes = await Promise.all([tryAdd(), tryAdd({ hours: 1 })]);
    expect(outcomes.filter(isRefusal)).toHaveLength(1);
    expect(listed()).toHaveLength(1);
    await expectWhole();
  });

  test("that is killed while it copies a model leaves no backup, and the next one is whole", async () => {
    const large = await addModel("large", Buffer.alloc(200 * 1024 * 1024));
    const args = ["backup", `${kit.folder}/`, "--env-file=/dev/null", `--data-dir=${dataDir}`];
    const killed = Bun.spawn([process.execPath, "src/main.ts", ...args], {
      cwd: join(import.meta.dir, "../../.."),
      env: { PATH: "/usr/bin:/bin", DATABASE_URL: source.url, CLAVIGER_SECRET: TEST_SECRET },
      stdio: ["ignore", "ignore", "ignore"],
    });
    const copies = () =>
      existsSync(join(kit.folder, "models")) &&
      readdirSync(join(kit.folder, "models")).filter(
        (name) =>
          name.startsWith("unfinished-") && statSync(join(kit.folder, "models", name)).size > 1_000_000,
      ).length === 1;
    await until(copies, { limitMs: 30_000 });
    killed.kill("SIGKILL");
    await killed.exited;
    expect(listed().filter((name) => name.endsWith(".zst"))).toEqual([]);
    expect(existsSync(inFolder(large))).toBe(false);
    // The next one runs an hour later.
    for (const name of listed()) utimesSync(join(kit.folder, name), 1, 1);
    const unfinished = kept().find((name) => name.startsWith("unfinished-")) ?? "";
    utimesSync(join(kit.folder, "models", unfinished), 1, 1);
    await add({ hours: 1, keep: "1h", now: new Date() });
    expect(listed()).toHaveLength(1);
    expect(kept()).toEqual([FIRST, large].toSorted());
    await expectWhole();
    await forgetModel(large);
  });

  const why = whyNoSmallDisk(place);
  test.skipIf(why !== undefined)(
    "on a full or read-only disk leaves the earlier backups, and nothing unfinished",
    async () => {
      kit.folder = join(kit.folder, "disk");
      const disk = mountSmallDisk(kit.folder);
      try {
        await add();
        const second = await addModel("on a disk", Buffer.alloc(100_000, 7));
        disk.fill();
        expect(sentenceOf(await tryAdd({ hours: 1, keep: "1h" }))).toContain("its disk is full");
        expect([listed(), kept()]).toEqual([["ballast", nameAt(3)], [FIRST]]);
        disk.free();
        spawnSync("mount", ["-o", "remount,ro", kit.folder]);
        expect(sentenceOf(await tryAdd({ hours: 1, keep: "1h" }))).toBe(
          `Cannot write into ${kit.folder}: its file system cannot be written to; choose another place`,
        );
        spawnSync("mount", ["-o", "remount,rw", kit.folder]);
        await add({ hours: 2, keep: "1h" });
        expect(listed()).toEqual([nameAt(5)]);
        await forgetModel(second);
      } finally {
        disk.unmount();
      }
    },
  );
});

describe("restoreBackup() from a kit.folder", () => {
  const target = useForEach(() => createTestDatabase({ empty: true }));
  let path: string;
  let at: string;
  let to: string;

  beforeAll(async () => {
    at = mkdtempSync(join(place, "restored-"));
    ({ path } = orThrow(await tryAdd({ folder: at })));
  });
  beforeEach(() => {
    to = mkdtempSync(join(place, "to-"));
  });

  test("refuses a missing or damaged model file before the database changes", async () => {
    const model = pathOfFile(join(at, "models"), FIRST);
    const remedy =
      "use another copy of it (if you remove it, the next backup writes it again); `claviger restore -` restores the " +
      "backup from standard input, without model files";
    const verify = async () =>
      sentenceOf(await verifyBackup(path, { ...watch, besideFolder: join(at, "models") }));
    renameSync(model, `${model}.away`);
    expect(await verify()).toBe(
      `Cannot use the backup ${path}: its model file ${model} is missing; ${remedy}`,
    );
    writeFileSync(model, "hullo\n");
    expect(await verify()).toBe(
      `Cannot use the backup ${path}: its model file ${model} is changed; ${remedy}`,
    );
    renameSync(`${model}.away`, model);
    // A file that is damaged after it was read.
    const proven = await proveBeside(path);
    writeFileSync(model, "hullo\n");
    expect(sentenceOf(await tryRestore(target.address, proven, { models: { dataDir: to } }))).toContain(
      "is damaged",
    );
    writeFileSync(model, MODEL_BYTES);
    const rows = await target.database.query((sql) => sql`select from accounts`);
    expect(rows).toEqual([]);
  });

  test("restores every row and every model file", async () => {
    orThrow(await tryRestore(target.address, await proveBeside(path), { models: { dataDir: to } }));
    expect(await dump(target.database)).toEqual(await dump(source.database));
    expect(readFileSync(pathOfFile(modelsFolderOf({ dataDir: to }), FIRST))).toEqual(MODEL_BYTES);
  });

  test("leaves the model files out if they were not read", async () => {
    const { sums } = await prove(path);
    expect(sums.models).toEqual([]);
  });
});
