/** `claviger models …`, backup and restore with a bucket, as operators run them on two hosts. */
import { beforeEach, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { refusalOf } from "../cli/command_line.ts";
import { useCommandLine } from "../cli/use_command_line.ts";
import { objectOf, REGION, startBucketStandIn } from "../support/bucket_stand_in.ts";
import { createExternalDatabase } from "../support/external_database.ts";
import { testBytes } from "../support/hosted.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { useForEach } from "../support/use.ts";
import { addArgs, PUBLIC } from "./model_stage.ts";

const BYTES = testBytes(11_000);
const SHA256 = hash("sha256", BYTES);

const bucket = useForEach(startBucketStandIn);
const database = useForEach(createExternalDatabase);
const one = useCommandLine();
const two = useCommandLine();
const file = join(one.folder, "m.onnx");
const credentials = join(one.folder, "credentials");
writeFileSync(file, BYTES);

const own = () => ({ ...PUBLIC, DATABASE_URL: database.url, CLAVIGER_SECRET: TEST_SECRET });
const env = () => ({
  ...own(),
  CLAVIGER_MODELS_S3: bucket.url,
  CLAVIGER_MODELS_S3_REGION: REGION,
  CLAVIGER_MODELS_S3_CREDENTIALS_FILE: credentials,
});
const pathIn = (line: typeof one, sha256: string) => join(line.dataDir, "models", sha256.slice(0, 2), sha256);
const add = (name: string, path = file, settings: Readonly<Record<string, string>> = env()) =>
  one.here(addArgs({ name, file: path }), { env: settings });

/** Restores a backup on the second host into an empty database. */
async function restore(backup: string) {
  await using empty = await createExternalDatabase({ empty: true });
  return await two.here(["restore", backup], { env: { ...env(), DATABASE_URL: empty.url } });
}

/** Before each test, the first host has added the model `m`. */
beforeEach(async () => {
  writeFileSync(credentials, bucket.credentials);
  for (const { dataDir } of [one, two]) {
    rmSync(dataDir, { recursive: true, force: true });
    mkdirSync(dataDir, { mode: 0o700 });
  }
  expect((await one.here(["migrate"], { env: own() })).status).toBe(0);
  expect((await add("m")).err).toBe("");
});

describe("claviger models add --file, with a bucket", () => {
  test("puts the file into the bucket by parts, once, if the bucket has the file already", async () => {
    const bytes = testBytes(11_000_000);
    const large = join(one.folder, "large.onnx");
    writeFileSync(large, bytes);
    expect((await add("large", large)).status).toBe(0);
    expect(bucket.objects.get(objectOf(hash("sha256", bytes)))?.bytes.equals(bytes)).toBe(true);
    expect(bucket.requests.filter((line) => line.includes("partNumber="))).toHaveLength(3);
    const before = bucket.requests.length;
    expect((await add("again", large)).status).toBe(0);
    expect(bucket.requests.slice(before).filter((line) => line.startsWith("PUT"))).toEqual([]);
  });

  test("lists no version and leaves nothing in the bucket and the folder if that fails", async () => {
    const other = join(one.folder, "other.onnx");
    for (const [name, fault, seed, why] of [
      ["full", "full", 2, "it is full; raise its quota, or free some space"],
      [
        "bent",
        "wrong bytes",
        3,
        "what it stored has another SHA-256 than the file, so it was removed; see `claviger models verify`",
      ],
    ] as const) {
      writeFileSync(other, testBytes(9_000_000, seed));
      const sha256 = hash("sha256", testBytes(9_000_000, seed));
      bucket.fault = fault;
      const refused = refusalOf(await add(name, other));
      bucket.fault = "none";
      expect(refused).toBe(`Cannot add model: the bucket ${bucket.url}: ${why}`);
      expect(bucket.objects.has(objectOf(sha256))).toBe(false);
      expect(bucket.uploads.size).toBe(0);
      expect(existsSync(pathIn(one, sha256))).toBe(false);
      const models = await one.json(["models", "list"], { env: own() });
      expect(models.map((model: { name: string }) => model.name)).not.toContain(name);
    }
    await bucket.goAway();
    const gone = refusalOf(await add("gone"));
    await bucket.comeBack();
    expect(gone).toBe(`Cannot add model: the bucket ${bucket.url}: nothing listens there`);
  });

  test("refuses credentials that it cannot read, for the command and for the service", async () => {
    const wrong = { ...env(), CLAVIGER_MODELS_S3_CREDENTIALS_FILE: "/nothing" };
    expect(refusalOf(await add("wrong", file, wrong))).toContain("/nothing: there is no such file");
    const { status, err } = await two.here(["serve", "--port", "0"], { env: wrong });
    expect(status).toBe(78);
    expect(err).toContain(`Cannot serve: the bucket ${bucket.url}: /nothing: there is no such file`);
  });
});

describe("claviger models verify and purge, with a bucket", () => {
  test("read every file in the bucket and its copies, and name what no version uses", async () => {
    expect((await one.here(["models", "verify"], { env: env() })).status).toBe(0);
    const stray = "ab".repeat(32);
    bucket.objects.set(objectOf(stray), { bytes: Buffer.alloc(5), changedAt: new Date() });
    expect((await one.here(["models", "verify"], { env: env() })).err).toContain(
      `No version uses ${bucket.url}/ab/${stray}: you may delete it`,
    );

    writeFileSync(pathIn(one, SHA256), testBytes(11_000, 9));
    const damaged = await one.here(["models", "verify"], { env: env() });
    expect(damaged.status).toBe(1);
    expect(damaged.err).toContain("m 1.0.0 is damaged in the cache");
    rmSync(pathIn(one, SHA256));

    const object = bucket.objects.get(objectOf(SHA256));
    const right = Buffer.from(object?.bytes ?? []);
    object?.bytes.fill(0, 0, 10);
    expect((await one.here(["models", "verify"], { env: env() })).err).toContain("m 1.0.0 is changed");
    object?.bytes.set(right);

    await bucket.goAway();
    const gone = await one.here(["models", "verify"], { env: env() });
    await bucket.comeBack();
    expect(gone.status).toBe(1);
    expect(gone.err).toContain(`the bucket ${bucket.url}: nothing listens there`);

    const inTwoDays = { ...systemClock, now: () => new Date(Date.now() + 2 * 86_500_000) };
    const purged = await one.json(["models", "purge"], { env: env(), clock: inTwoDays });
    expect(purged).toMatchObject({ files: 1, bytes: 5 });
    expect(bucket.objects.has(objectOf(stray))).toBe(false);
    expect(bucket.objects.has(objectOf(SHA256))).toBe(true);
  });
});

describe("Ctrl-C while the bucket does not answer", () => {
  const backup = join(one.folder, "hung.tar.zst");
  const NOTHING = "nothing was changed";
  const AGAIN = "run the command again to do the rest";

  test.each([
    [["models", "verify"], NOTHING],
    [["models", "purge"], AGAIN],
    [["models", "move", "--to", "s3"], AGAIN],
    [["models", "move", "--to", "folder"], AGAIN],
    [["backup", `${backup}.new`, "--with-models"], NOTHING],
    [["restore", backup], NOTHING],
    [addArgs({ name: "late", file }), NOTHING],
  ] as const)("ends %j", async (args, left) => {
    const other = args[0] === "restore" ? await createExternalDatabase({ empty: true }) : undefined;
    if (other !== undefined)
      expect((await one.here(["backup", backup, "--with-models"], { env: env() })).status).toBe(0);
    rmSync(pathIn(one, SHA256));
    const begun = bucket.requests.length;
    bucket.fault = "silent";
    let interruptedMs = 0;
    const signal = until(() => bucket.requests.length > begun).then(() => {
      interruptedMs = performance.now();
      return "SIGINT";
    });
    const settings = { ...env(), ...(other && { DATABASE_URL: other.url }) };
    expect(refusalOf(await one.here(args, { env: settings, signal }))).toBe(`Stopped by SIGINT: ${left}`);
    expect(performance.now() - interruptedMs).toBeLessThan(10_000);
    await other?.close();
  });
});

test("claviger models purge keeps a file that was added again while it deletes others", async () => {
  const sums = ["cd".repeat(32), "ef".repeat(32)] as const;
  const old = new Date(Date.now() - 3 * 86_500_000);
  for (const sum of sums) bucket.objects.set(objectOf(sum), { bytes: Buffer.alloc(5), changedAt: old });
  const begun = bucket.requests.length;
  bucket.delayMs = 300;
  const purging = one.here(["models", "purge"], { env: env() });
  await until(() => bucket.requests.slice(begun).some((line) => line.startsWith("DELETE")));
  await database.database.query(
    (sql) => sql`insert into model_files (sha256, size_bytes, created_at) values (${sums[1]}, 5, now())`,
  );
  expect((await purging).status).toBe(0);
  expect(sums.map((sum) => bucket.objects.has(objectOf(sum)))).toEqual([false, true]);
});

describe("claviger backup and restore, with a bucket", () => {
  test("take the bytes from the bucket with --with-models, and put them back into it", async () => {
    const backup = join(one.folder, "with.tar.zst");
    rmSync(pathIn(one, SHA256), { force: true });
    const taken = await one.here(["backup", backup, "--with-models"], { env: env() });
    expect([taken.status, taken.err]).toEqual([0, ""]);
    bucket.objects.clear();
    const restored = await restore(backup);
    expect([restored.status, restored.err]).toEqual([0, ""]);
    expect(bucket.objects.get(objectOf(SHA256))?.bytes.equals(BYTES)).toBe(true);
  });

  test("leave the files in the bucket without --with-models", async () => {
    const backup = join(one.folder, "without.tar.zst");
    expect((await one.here(["backup", backup], { env: env() })).status).toBe(0);
    const restored = await restore(backup);
    expect(restored.out).toContain("The model files stay in the bucket: run `claviger models verify`");
  });
});

describe("claviger backup FOLDER/ and restore FOLDER/, with a bucket", () => {
  test("keep the bytes of the bucket beside the backups once, verify them, and put them back into the bucket", async () => {
    const folder = join(one.folder, "backups/");
    const kept = join(folder, "models", SHA256.slice(0, 2), SHA256);
    rmSync(pathIn(one, SHA256), { force: true });
    const reads = () =>
      bucket.requests.filter((line) => line.startsWith("GET") && line.includes(SHA256)).length;
    const before = reads();
    const first = await one.here(["backup", folder], { env: env() });
    expect([first.status, first.err]).toEqual([0, ""]);
    expect(readFileSync(kept).equals(BYTES)).toBe(true);
    const afterFirst = reads();
    expect(afterFirst).toBeGreaterThan(before);
    // The next backup in another second, because its name is the time.
    const later = { ...systemClock, now: () => new Date(Date.now() + 5_000) };
    expect((await one.here(["backup", folder], { env: env(), clock: later })).status).toBe(0);
    expect(reads()).toBe(afterFirst);

    bucket.objects.clear();
    const restored = await restore(newestOf(folder));
    expect([restored.status, restored.err]).toEqual([0, ""]);
    expect(bucket.objects.get(objectOf(SHA256))?.bytes.equals(BYTES)).toBe(true);
  });

  test("refuse to restore if the bucket is gone, and put the bytes into the folder in a rehearsal without the bucket", async () => {
    const folder = join(one.folder, "rehearsed/");
    expect((await one.here(["backup", folder], { env: env() })).status).toBe(0);
    await using empty = await createExternalDatabase({ empty: true });
    await bucket.goAway();
    try {
      const refused = await two.here(["restore", newestOf(folder)], {
        env: { ...env(), DATABASE_URL: empty.url },
      });
      expect(refused.status).toBe(1);
      expect(refused.err).toContain(`the bucket ${bucket.url}: nothing listens there`);
      // The refused restore left this database empty.
      const rehearsed = await two.here(["restore", newestOf(folder)], {
        env: { ...own(), DATABASE_URL: empty.url },
      });
      expect([rehearsed.status, rehearsed.err]).toEqual([0, ""]);
      expect(readFileSync(pathIn(two, SHA256)).equals(BYTES)).toBe(true);
    } finally {
      await bucket.comeBack();
    }
  });

  function newestOf(folder: string): string {
    const names = readdirSync(folder).filter((name) => name.endsWith(".zst"));
    return join(folder, names.sort().at(-1) ?? "");
  }
});

describe("claviger models move", () => {
  const moving = testBytes(3_000_000, 5);
  const sha256 = hash("sha256", moving);
  const path = join(one.folder, "moving.onnx");

  test("copies the files of the folder into the bucket while a service serves them from the folder", async () => {
    writeFileSync(path, moving);
    expect((await add("moving", path, own())).status).toBe(0);
    await using service = await one.serve([], { env: own() });
    expect(bucket.objects.has(objectOf(sha256))).toBe(false);
    const moved = await one.here(["models", "move", "--to", "s3"], { env: env() });
    expect([moved.status, moved.err]).toEqual([
      0,
      "On every host, restart the services one after the other, so that they use it\n",
    ]);
    expect(moved.out).toBe(`2 files (3,011,000 bytes) in ${bucket.url}\n`);
    expect(bucket.objects.get(objectOf(sha256))?.bytes.equals(moving)).toBe(true);
    expect((await fetch(`${service.url}/api/health`)).status).toBe(200);
    expect(readFileSync(pathIn(one, sha256)).equals(moving)).toBe(true);
  });

  test("goes on after a file that is damaged in the folder, and leaves it out of the bucket", async () => {
    const damaged = testBytes(3_000_000, 8);
    const sum = hash("sha256", damaged);
    writeFileSync(path, damaged);
    expect((await add("damaged", path, own())).status).toBe(0);
    writeFileSync(pathIn(one, sum), damaged.fill(0, 0, 10));
    const moved = await one.here(["models", "move", "--to", "s3"], { env: env() });
    expect(moved.out).toBe(`1 file (11,000 bytes) in ${bucket.url}\n`);
    expect(moved.err).toStartWith(
      "claviger: 1 file neither in the bucket nor intact in the folder of this host:",
    );
    expect(bucket.objects.has(objectOf(sum))).toBe(false);
  });

  test("copies the files of the bucket into the folder, and says which are in neither", async () => {
    writeFileSync(path, moving);
    expect((await add("moving", path)).status).toBe(0);
    const moved = await two.json(["models", "move", "--to", "folder"], { env: env() });
    expect(moved).toEqual({ files: 2, bytes: 3_011_000, missing: [] });
    expect(readFileSync(pathIn(two, sha256)).equals(moving)).toBe(true);
    expect((await two.here(["models", "verify"], { env: own() })).status).toBe(0);
    bucket.objects.delete(objectOf(sha256));
    rmSync(pathIn(two, sha256));
    const missing = await two.here(["models", "move", "--to", "folder"], { env: env() });
    expect(missing.status).toBe(1);
    expect(missing.err).toStartWith(
      "claviger: 1 file neither in the bucket nor intact in the folder of this host:",
    );
  });

  test("marks a folder whose files have to stay, but not if the first move to it failed", async () => {
    const isMarked = () => existsSync(join(two.dataDir, "models", ".keep-all"));
    const move = (to: string) => two.here(["models", "move", "--to", to], { env: env() });
    const fail = async () => {
      rmSync(pathIn(two, SHA256), { force: true });
      bucket.fault = "failing";
      expect((await move("folder")).status).toBe(1);
      bucket.fault = "none";
    };
    await fail();
    expect(isMarked()).toBe(false);
    expect((await move("folder")).status).toBe(0);
    await fail();
    expect(isMarked()).toBe(true);
    expect((await move("s3")).status).toBe(0);
    expect(isMarked()).toBe(false);
  });

  test("needs a bucket", async () => {
    expect(refusalOf(await one.here(["models", "move", "--to", "s3"], { env: own() }))).toBe(
      "Cannot move models: CLAVIGER_MODELS_S3 is not set",
    );
  });
});
