/** A backup saves what it can: it names each model file that it cannot save, and everything else is whole. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { findLastBackup, verifyBackup } from "../../../src/installation/backup/mod.ts";
import { modelsFolderOf, pathOfFile } from "../../../src/models/mod.ts";
import { objectOf, REGION, startBucketStandIn } from "../../support/bucket_stand_in.ts";
import { createTestDatabase } from "../../support/database.ts";
import { orThrow, sentenceOf } from "../../support/issue.ts";
import { useForAll } from "../../support/use.ts";
import { backUp, dump, MODEL_BYTES, prove, tryBackup, tryRestore, watch } from "./backup_kit.ts";
import { FIRST, nameAt, proveBeside, START, useBackupFolder } from "./folder_kit.ts";

setDefaultTimeout(60_000);
const kit = useBackupFolder();
const { models, dataDir, source, addModel, putModel, forgetModel, tryAdd, add, listed, kept, inFolder } = kit;
const SECOND = Buffer.from("the second");

/** What the database says about the model files of its last backup. */
const lastMissing = async () =>
  (await findLastBackup(source.database, { now: START, overdueHours: 36 })).missingModels;

describe("addBackup() with a model file that cannot be saved", () => {
  test("names it with the reason, saves and verifies everything else, and is whole again after a repair", async () => {
    const second = await addModel("second", SECOND);
    const path = pathOfFile(models, second);
    const faults: readonly [fault: () => void, why: string][] = [
      [() => {}, "it is missing"],
      [() => writeFileSync(path, "the secund"), "it is damaged"],
      [() => writeFileSync(path, "the sec"), "it is damaged"],
      [() => writeFileSync(path, "the second and more"), "it is damaged"],
      [() => mkdirSync(path), "it is a folder"],
    ];
    for (const [index, [fault, why]] of faults.entries()) {
      rmSync(path, { recursive: true, force: true });
      fault();
      const written = await add({ hours: index, keep: "9h" });
      const missing = { sha256: second, bytes: SECOND.length, versions: ["second 1"], why };
      expect(written).toMatchObject({ isVerified: true, notNoted: undefined, modelFiles: 2 });
      expect(written.head.missing_models).toEqual([missing]);
      expect(written.sums.models).toEqual([{ sha256: FIRST, bytes: 6 }]);
      expect([listed().length, kept(), await lastMissing()]).toEqual([index + 1, [FIRST], 1]);
      expect((await proveBeside(written.path)).head.missing_models).toEqual([missing]);
    }
    rmSync(path, { recursive: true, force: true });
    putModel(second, SECOND);
    const { head } = await add({ hours: 6, keep: "9h" });
    expect(head.missing_models).toEqual([]);
    expect([kept(), await lastMissing()]).toEqual([[FIRST, second].toSorted(), 0]);
    await kit.expectWhole();
    await forgetModel(second);
  });

  test("is restored with every row and with the files that it has", async () => {
    const second = await addModel("restored", SECOND);
    rmSync(pathOfFile(models, second));
    const { path } = await add();
    const to = { dataDir: join(kit.folder, "to") };
    await using target = await createTestDatabase({ empty: true });
    orThrow(await tryRestore(target.address, await proveBeside(path), { models: to }));
    expect(await dump(target.database)).toEqual(await dump(source.database));
    expect(readFileSync(pathOfFile(modelsFolderOf(to), FIRST))).toEqual(MODEL_BYTES);
    expect(existsSync(pathOfFile(modelsFolderOf(to), second))).toBe(false);
    await forgetModel(second);
  });

  test("never leads --keep to remove the last whole backup or its model files", async () => {
    const purged = await addModel("purged", Buffer.from("purged"));
    const whole = await add({ keep: "2h" });
    await forgetModel(purged);
    const second = await addModel("spared", SECOND);
    rmSync(pathOfFile(models, second));
    for (const hours of [1, 2, 3]) await add({ hours, keep: "2h" });
    const { removed } = await add({ hours: 4, keep: "2h" });
    expect(removed).toMatchObject({ backups: 1, models: 0, lastWhole: whole.path });
    expect(listed()).toEqual([nameAt(3), nameAt(6), nameAt(7)]);
    expect(kept()).toEqual([FIRST, purged].toSorted());
    expect((await proveBeside(whole.path)).sums.models).toHaveLength(2);
    putModel(second, SECOND);
    const repaired = await add({ hours: 5, keep: "2h" });
    expect(repaired.removed).toEqual({ backups: 2, models: 1, warnings: [] });
    expect(listed()).toEqual([nameAt(7), nameAt(8)]);
    await forgetModel(second);
  });

  test("takes it from the folder of backups as long as a good copy is there", async () => {
    await add();
    rmSync(pathOfFile(models, FIRST));
    expect((await add({ hours: 1 })).head.missing_models).toEqual([]);
    putModel(FIRST, MODEL_BYTES);
  });
});

describe("addBackup() with a damaged copy in the folder of backups", () => {
  test("repairs a copy of another size at once, and one of the same size within a day", async () => {
    for (const [bytes, daysAgo] of [
      ["hell", 0],
      ["hullo\n", 1.01],
      // Its time lies ahead of a clock that was set back.
      ["hullo\n", -1],
    ] as const) {
      rmSync(kit.folder, { recursive: true });
      await add();
      writeFileSync(inFolder(FIRST), bytes);
      const at = new Date(START.getTime() - daysAgo * 86_400_000);
      utimesSync(inFolder(FIRST), at, at);
      const { head } = await add({ hours: 1, now: new Date(START.getTime() + 1_000) });
      expect(head.missing_models).toEqual([]);
      expect(readFileSync(inFolder(FIRST))).toEqual(MODEL_BYTES);
      await kit.expectWhole();
    }
  });

  test("reads a good copy again once a day", async () => {
    await add();
    const dayAgo = new Date(START.getTime() - 86_400_000);
    utimesSync(inFolder(FIRST), dayAgo, dayAgo);
    await add({ hours: 1 });
    expect(statSync(inFolder(FIRST)).mtimeMs).toBe(START.getTime() + 3_600_000);
    await add({ hours: 24 });
    expect(statSync(inFolder(FIRST)).mtimeMs).toBe(START.getTime() + 3_600_000);
    await add({ hours: 25 });
    expect(statSync(inFolder(FIRST)).mtimeMs).toBe(START.getTime() + 25 * 3_600_000);
  });

  test("names the file if the installation has no good one, either", async () => {
    await add();
    truncateSync(inFolder(FIRST), 3);
    writeFileSync(pathOfFile(models, FIRST), "hullo\n");
    const { head } = await add({ hours: 1 });
    const why = `it is damaged; the copy in ${join(kit.folder, "models")} is changed, too`;
    expect(head).toMatchObject({ beside: { files: [] }, missing_models: [{ sha256: FIRST, why }] });
    putModel(FIRST, MODEL_BYTES);
  });
});

describe("addBackup() with files in a bucket", () => {
  const bucket = useForAll(startBucketStandIn);
  const place = () => {
    const credentialsFile = join(kit.place, "credentials");
    writeFileSync(credentialsFile, bucket.credentials);
    const modelsBucket = {
      url: bucket.url,
      region: REGION,
      credentialsFile,
      caFile: undefined,
      limitMs: 500,
    };
    return { dataDir, modelsBucket };
  };
  const putObject = (bytes: Buffer) => bucket.objects.set(objectOf(FIRST), { bytes, changedAt: new Date() });

  test("takes the good one of the copies on this host and in the bucket, and names a file that has none", async () => {
    const whyOf = async (hours: number) =>
      (await add({ hours, models: place() })).head.missing_models?.map(({ why }) => why);
    putObject(MODEL_BYTES);
    putModel(FIRST, Buffer.from("hullo\n"));
    expect(await whyOf(0)).toEqual([]);
    expect(readFileSync(inFolder(FIRST))).toEqual(MODEL_BYTES);
    rmSync(kit.folder, { recursive: true });
    putObject(Buffer.from("hullo\n"));
    expect(await whyOf(1)).toEqual(["it is damaged, and its object in the bucket is damaged"]);
    bucket.objects.clear();
    rmSync(pathOfFile(models, FIRST));
    expect(await whyOf(2)).toEqual([
      `the bucket ${bucket.url}: its object ${objectOf(FIRST).split("/").slice(-2).join("/")} is missing`,
    ]);
    putModel(FIRST, MODEL_BYTES);
    expect(await whyOf(3)).toEqual([]);
  });

  test("saves the database while the bucket does not answer, and asks it three times at most", async () => {
    const added: string[] = [];
    for (const name of ["a", "b", "c", "d", "e"]) added.push(await addModel(name, Buffer.from(name)));
    for (const sha256 of added) rmSync(pathOfFile(models, sha256));
    const readOf = () => bucket.requests.filter((request) => request.includes(`GET /models/claviger`)).length;
    bucket.fault = "failing";
    const { head } = await add({ models: place() });
    expect(head.missing_models).toHaveLength(5);
    expect(head.missing_models?.map(({ why }) => why).slice(-2)).toEqual(
      Array(2).fill("the bucket failed 3 times before"),
    );
    expect(readOf()).toBeGreaterThan(0);
    bucket.fault = "none";
    for (const sha256 of added) await forgetModel(sha256);
  });

  test("asks the bucket for every file while it fails less than three times one after another", async () => {
    const contents = ["f", "g", "h", "i", "j"].map((text) => Buffer.from(text));
    const added = new Map<string, Buffer>();
    for (const bytes of contents) added.set(await addModel(bytes.toString(), bytes), bytes);
    for (const sha256 of added.keys()) rmSync(pathOfFile(models, sha256));
    // The bucket has the one in the middle.
    const inOrder = [...added.keys()].sort();
    const there = inOrder[2] ?? "";
    bucket.objects.set(objectOf(there), { bytes: added.get(there) ?? Buffer.of(), changedAt: new Date() });
    const { head } = await add({ models: place() });
    expect(head.missing_models?.map(({ sha256 }) => sha256)).toEqual(
      inOrder.filter((each) => each !== there),
    );
    for (const { why } of head.missing_models ?? []) expect(why).toEndWith(" is missing");
    for (const sha256 of added.keys()) await forgetModel(sha256);
  });
});

describe("writeBackup() to a single file", () => {
  test("leaves out a model file that is damaged, and has every other one", async () => {
    const second = await addModel("single", SECOND);
    putModel(second, Buffer.from("the secund"));
    const path = join(kit.folder, "single");
    const { head } = await backUp(source.address, path, { models: { dataDir } });
    expect(head).toMatchObject({ models: true, missing_models: [{ sha256: second, why: "it is damaged" }] });
    expect((await prove(path)).sums.models).toEqual([{ sha256: FIRST, bytes: 6 }]);
    expect(await lastMissing()).toBe(1);
    // A backup of the tables alone says nothing about the files.
    await backUp(source.address, join(kit.folder, "tables"));
    expect(await lastMissing()).toBe(1);
    await forgetModel(second);
  });

  test("fails if a model file changes while it is saved, and leaves no file", async () => {
    let isChecked = false;
    const onProgress = ({ what }: { readonly what: string }) => {
      if (what === "accounts" && !isChecked) putModel(FIRST, Buffer.from("hullo\n"));
      isChecked ||= what === "accounts";
    };
    const path = join(kit.folder, "changed");
    const refused = await tryBackup(source.address, path, { models: { dataDir }, watch: { onProgress } });
    putModel(FIRST, MODEL_BYTES);
    expect(sentenceOf(refused)).toBe(
      `Cannot back up: the model file ${FIRST} changed meanwhile: it is damaged; try again`,
    );
    expect(listed()).toEqual([]);
  });
});

test("a file that a later backup misses is still in an earlier one", async () => {
  const { path } = await add();
  expect(
    orThrow(await verifyBackup(path, { ...watch, besideFolder: join(kit.folder, "models") })).sums.models,
  ).toEqual([{ sha256: FIRST, bytes: 6 }]);
  expect(sentenceOf(await tryAdd())).toContain("was made in the same second");
});
