/** A folder of backups, in which model files are kept once: what is written, what is removed, and what stays. */
import { beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
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
import { headSchema } from "../../src/backup/format.ts";
import {
  addBackup,
  type FolderBackup,
  type FolderOptions,
  KEEP_RULE,
  type Progress,
  verifyBackup,
} from "../../src/backup/mod.ts";
import { migrations } from "../../src/database/mod.ts";
import { modelsFolderOf, pathOfFile } from "../../src/models/mod.ts";
import { bunPlatform } from "../../src/platform/bun/mod.ts";
import { isRefusal, type Refusal } from "../../src/refusal.ts";
import { mountSmallDisk, whyNoSmallDisk } from "../crash_test/small_disk.ts";
import { createTestDatabase } from "../support/database.ts";
import { createExternalDatabase } from "../support/external_database.ts";
import { orThrow, sentenceOf } from "../support/issue.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { useForAll, useForEach } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { backUp, dump, fill, MODEL_BYTES, otherSecret, prove, tryRestore, watch } from "./backup_kit.ts";

setDefaultTimeout(60_000);
const place = useFolder();
const dataDir = join(place, "data");
const models = modelsFolderOf({ dataDir });
const source = useForAll(createExternalDatabase);
const HOUR_MS = 3_600_000;
const START = new Date("2026-11-27T03:00:05Z");
let folder: string;

/** Adds the bytes of a model to the registry and to the data folder. */
async function addModel(name: string, bytes: Buffer): Promise<string> {
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  putModel(sha256, bytes);
  await source.database.query(
    (sql) => sql`
      with model as (
        insert into models (id, name, listed_version, created_at) values (gen_random_uuid(), ${name}, '1', now())
        returning id
      ),
      file as (
        insert into model_files (sha256, size_bytes, created_at)
        values (${sha256}, ${bytes.length}::bigint, now()) returning sha256
      )
      insert into model_versions (id, model_id, version, type, paradigm, n_features, n_classes, size_mb, checksum,
                                  file, requires_license, metadata, created_at)
      select gen_random_uuid(), model.id, '1', 'SvcLDA', 'p300', 8, 2, 0.1, sha256, sha256, 'free', '{}', now()
        from model, file`,
  );
  return sha256;
}

function putModel(sha256: string, bytes: Buffer): void {
  mkdirSync(join(models, sha256.slice(0, 2)), { recursive: true });
  writeFileSync(pathOfFile(models, sha256), bytes);
}

/** Forgets a model, as `models retire` and a later `models purge` do. */
async function forgetModel(sha256: string): Promise<void> {
  await source.database.query(
    (sql) => sql`update model_versions set file = null, retired_at = now() where file = ${sha256}`,
  );
  await source.database.query((sql) => sql`delete from model_files where sha256 = ${sha256}`);
  rmSync(pathOfFile(models, sha256), { force: true });
}

const FIRST = createHash("sha256").update(MODEL_BYTES).digest("hex");

beforeAll(async () => {
  await fill(source.database);
  // Long texts would only make the test slower.
  await source.database.query((sql) => sql`delete from events where length(model_name) > 1000`);
  putModel(FIRST, MODEL_BYTES);
});

beforeEach(() => {
  folder = mkdtempSync(join(place, "backups-"));
});

interface AddOptions extends Partial<Omit<FolderOptions, "keep">> {
  readonly hours?: number;
  readonly keep?: string;
}

function tryAdd({ hours = 0, keep, ...options }: AddOptions = {}): Promise<FolderBackup | Refusal> {
  return addBackup(source.address, {
    folder,
    models: { dataDir },
    keep: keep === undefined ? undefined : KEEP_RULE.parse(keep),
    lock: bunPlatform.lockOpenFile,
    tryLock: bunPlatform.tryLock,
    migrations,
    version: "0.4.0",
    brand: "svc",
    now: new Date(START.getTime() + hours * HOUR_MS),
    secret: TEST_SECRET,
    watch,
    ...options,
  });
}

async function proveBeside(path: string) {
  return orThrow(await verifyBackup(path, { ...watch, besideFolder: join(dirname(path), "models") }));
}

async function add(options?: AddOptions): Promise<FolderBackup> {
  return orThrow(await tryAdd(options));
}

const nameAt = (hour: number) => `claviger-2026-11-27T${String(hour).padStart(2, "0")}0005Z.tar.zst`;
const listed = () =>
  readdirSync(folder)
    .filter((name) => !["models", ".lock"].includes(name))
    .toSorted();
const kept = () =>
  readdirSync(join(folder, "models"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .toSorted();
/** Reads every backup of the folder to its end, and the model files beside it. */
async function expectWhole() {
  for (const name of listed()) await proveBeside(join(folder, name));
}
const inFolder = (sha256: string) => pathOfFile(join(folder, "models"), sha256);

describe("addBackup()", () => {
  test("makes the folder, and writes a backup and each model file once, closed to others", async () => {
    folder = join(folder, "new");
    const first = await add();
    expect(first).toMatchObject({ path: join(folder, nameAt(3)), isVerified: true, notNoted: undefined });
    expect(first.head).toMatchObject({
      format_version: 2,
      models: false,
      beside: { files: [{ sha256: FIRST, bytes: 6 }] },
    });
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(first.path).mode & 0o777).toBe(0o600);
    expect(statSync(inFolder(FIRST)).mode & 0o007).toBe(0);
    utimesSync(inFolder(FIRST), 1, 1);
    await add({ hours: 1 });
    expect(listed()).toEqual([nameAt(3), nameAt(4)]);
    expect(statSync(inFolder(FIRST)).mtimeMs).toBe(1_000);
    await expectWhole();
  });

  test("would not use a backup whose time is none", async () => {
    const { head } = await add();
    expect(v.is(headSchema, head)).toBe(true);
    expect(v.is(headSchema, { ...head, made_at: "yesterday" })).toBe(false);
  });

  test("writes a single file as before, in the format of earlier versions", async () => {
    const { head } = await backUp(source.address, join(folder, "single"), { models: { dataDir } });
    expect([head.format_version, head.models, "beside" in head]).toEqual([1, true, false]);
    expect(existsSync(join(folder, "models"))).toBe(false);
  });

  test("names no backup whose model file is missing or damaged in the data folder", async () => {
    await add({ keep: "1h" });
    const second = await addModel("second", Buffer.from("second"));
    for (const [bytes, why] of [
      [undefined, "no such file"],
      ["secund", "is damaged; see `claviger models verify`"],
    ] as const) {
      rmSync(pathOfFile(models, second));
      if (bytes !== undefined) putModel(second, Buffer.from(bytes));
      expect(sentenceOf(await tryAdd({ hours: 1, keep: "1h" }))).toContain(why);
      expect([listed(), kept()]).toEqual([[nameAt(3)], [FIRST]]);
      if (bytes === undefined) putModel(second, Buffer.from("second"));
    }
    await forgetModel(second);
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

  test("gives no name to a backup or a copy that reads back with other bytes, and then removes nothing", async () => {
    await add();
    const second = await addModel("of two chunks", Buffer.alloc(1_500_000));
    for (const [spoiled, why] of [
      ["models", `Cannot write into ${join(folder, "models")}: a model file read back is changed`],
      [".", "Cannot back up: the written file is wrong: Cannot use the backup "],
    ] as const) {
      const at = join(folder, spoiled);
      const onProgress = ({ what, done }: Progress) => {
        if (what !== `models/${second}` || done < 1_500_000) return;
        for (const name of readdirSync(at).filter((each) => each.includes("unfinished-"))) {
          const fd = openSync(join(at, name), "r+");
          writeSync(fd, "spoiled", 100);
          closeSync(fd);
        }
      };
      const refused = await tryAdd({ hours: 5, keep: "1h", watch: { onProgress } });
      expect(sentenceOf(refused)).toStartWith(why);
      expect(listed()).toEqual([nameAt(3)]);
    }
    expect(kept()).toEqual([FIRST, second].toSorted());
    await forgetModel(second);
  });

  test("leaves files of the operator, and backups that were renamed or came from another installation", async () => {
    await add();
    const own = join(folder, nameAt(3));
    // A backup that an operator wants to keep, and what it needs.
    copyFileSync(own, join(folder, "before-upgrade.tar.zst"));
    copyFileSync(own, join(folder, "claviger-2020-01-01T000000Z.tar.zst"));
    await backUp(source.address, join(folder, "1.tar.zst"), { models: { dataDir } });
    writeFileSync(join(folder, "notes.txt"), "mine");
    symlinkSync("notes.txt", join(folder, "claviger-2020-01-02T000000Z.tar.zst"));
    mkdirSync(join(folder, "claviger-2020-01-03T000000Z.tar.zst"));
    writeFileSync(join(folder, "models/README"), "mine");
    await using other = await createTestDatabase();
    await fill(other.database);
    const ofOther = await addBackup(other.address, {
      ...{ folder, models: { dataDir }, keep: KEEP_RULE.parse("1h"), lock: bunPlatform.lockOpenFile },
      ...{ tryLock: bunPlatform.tryLock, migrations, version: "0.4.0", brand: "svc", watch },
      now: new Date(START.getTime() + HOUR_MS),
    });
    expect(orThrow(ofOther).removed).toMatchObject({ backups: 0 });
    const before = listed();
    expect(before).toHaveLength(8);
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
        `Cannot back up: another user can change what is in ${folder} or above it, and root could be led elsewhere; run ` +
        "this as that user, or choose another folder";
      chownSync(folder, other, other);
      expect(sentenceOf(await tryAdd())).toBe(refusal);
      expect(readdirSync(folder)).toEqual([]);
      chownSync(folder, 0, 0);
      mkdirSync(join(folder, "models"));
      chownSync(join(folder, "models"), other, other);
      expect(sentenceOf(await tryAdd())).toBe(refusal);
      chownSync(join(folder, "models"), 0, 0);
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
    const unfinished = join(folder, "models", `unfinished-${"0".repeat(16)}`);
    // A large file, which takes more than an hour to read again.
    writeFileSync(unfinished, "");
    utimesSync(unfinished, 1, 1);
    const lock = bunPlatform.tryLock(join(folder, ".lock"));
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
    truncateSync(join(folder, nameAt(3)), 500);
    const { removed } = await add({ hours: 1, keep: "1h" });
    expect(removed).toMatchObject({ backups: 0, models: 0 });
    expect("warnings" in removed ? removed.warnings : []).toEqual([
      expect.stringContaining(
        `${join(folder, nameAt(3))} cannot be used (it is no backup of Claviger, or it was cut`,
      ),
    ]);
    expect(kept()).toEqual([FIRST, second].toSorted());
    rmSync(join(folder, nameAt(3)));
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
    const lock = bunPlatform.tryLock(join(folder, ".lock"));
    expect(sentenceOf(await tryAdd({ hours: 1 }))).toBe(
      `Cannot back up: another backup into ${folder} is running, or its file system has no locks; try again when it has ended`,
    );
    lock?.release();
    expect(sentenceOf(await tryAdd({ folder: dataDir }))).toBe(
      `Cannot back up: ${dataDir} is the data folder itself; choose another folder`,
    );
    symlinkSync(dataDir, join(folder, "link"));
    expect(sentenceOf(await tryAdd({ folder: join(folder, "link") }))).toContain("is the data folder itself");
    const other = mkdtempSync(join(place, "other-"));
    mkdirSync(join(other, "postgres"));
    expect(sentenceOf(await tryAdd({ folder: other }))).toBe(
      `Cannot back up: ${other} is a data folder; choose another folder`,
    );
    expect(readdirSync(other)).toEqual(["postgres"]);
    writeFileSync(join(folder, "file"), "");
    expect(sentenceOf(await tryAdd({ folder: join(folder, "file/x") }))).toContain(
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
    const args = ["backup", `${folder}/`, "--env-file=/dev/null", `--data-dir=${dataDir}`];
    const killed = Bun.spawn([process.execPath, "src/main.ts", ...args], {
      cwd: join(import.meta.dir, "../.."),
      env: { PATH: "/usr/bin:/bin", DATABASE_URL: source.url, CLAVIGER_SECRET: TEST_SECRET },
      stdio: ["ignore", "ignore", "ignore"],
    });
    const copies = () =>
      existsSync(join(folder, "models")) &&
      readdirSync(join(folder, "models")).filter(
        (name) => name.startsWith("unfinished-") && statSync(join(folder, "models", name)).size > 1_000_000,
      ).length === 1;
    await until(copies, { limitMs: 30_000 });
    killed.kill("SIGKILL");
    await killed.exited;
    expect(listed().filter((name) => name.endsWith(".zst"))).toEqual([]);
    expect(existsSync(inFolder(large))).toBe(false);
    // The next one runs an hour later.
    for (const name of listed()) utimesSync(join(folder, name), 1, 1);
    const unfinished = kept().find((name) => name.startsWith("unfinished-")) ?? "";
    utimesSync(join(folder, "models", unfinished), 1, 1);
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
      folder = join(folder, "disk");
      const disk = mountSmallDisk(folder);
      try {
        await add();
        const second = await addModel("on a disk", Buffer.alloc(100_000, 7));
        disk.fill();
        expect(sentenceOf(await tryAdd({ hours: 1, keep: "1h" }))).toContain("its disk is full");
        expect([listed(), kept()]).toEqual([["ballast", nameAt(3)], [FIRST]]);
        disk.free();
        spawnSync("mount", ["-o", "remount,ro", folder]);
        expect(sentenceOf(await tryAdd({ hours: 1, keep: "1h" }))).toBe(
          `Cannot write into ${folder}: its file system cannot be written to; choose another place`,
        );
        spawnSync("mount", ["-o", "remount,rw", folder]);
        await add({ hours: 2, keep: "1h" });
        expect(listed()).toEqual([nameAt(5)]);
        await forgetModel(second);
      } finally {
        disk.unmount();
      }
    },
  );
});

describe("restoreBackup() from a folder", () => {
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
