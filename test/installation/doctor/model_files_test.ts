/** The findings of `doctor` and Health about hosted files: in the folder, and in a bucket that fails in every way. */
import { beforeAll, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import { examineBriefly, findWrongModelFiles } from "../../../src/installation/doctor/mod.ts";
import { objectOf, REGION, startBucketStandIn } from "../../support/bucket_stand_in.ts";
import { configOf } from "../../support/config.ts";
import { createTestDatabase } from "../../support/database.ts";
import { until } from "../../support/until.ts";
import { useForAll } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { examineAll } from "./doctor_kit.ts";

const target = useForAll(createTestDatabase);
const bucket = useForAll(startBucketStandIn);
const folder = useFolder();
const credentials = join(folder, "credentials");
const SHA256 = "ab".repeat(32);

beforeAll(async () => {
  writeFileSync(credentials, bucket.credentials);
  await target.database.query(
    (sql) => sql`insert into model_files (sha256, size_bytes, created_at) values (${SHA256}, 5, now())`,
  );
});

const env = () => ({
  CLAVIGER_DATA_DIR: folder,
  CLAVIGER_MODELS_S3: bucket.url,
  CLAVIGER_MODELS_S3_REGION: REGION,
  CLAVIGER_MODELS_S3_CREDENTIALS_FILE: credentials,
});
const putFile = () =>
  bucket.objects.set(objectOf(SHA256), { bytes: Buffer.from("right"), changedAt: new Date() });
const examineFiles = async (settings: Readonly<Record<string, string>>) =>
  (await examineAll(target, { env: settings }))("model files");

test("claviger doctor says on which host a file is missing, and where it should be", async () => {
  bucket.objects.clear();
  const shared = join(folder, "shared");
  mkdirSync(shared);
  expect(await examineFiles({ CLAVIGER_DATA_DIR: folder, CLAVIGER_MODELS_DIR: shared })).toMatchObject({
    state: "fail",
    message: `missing or cut short in the folder ${shared}, as this host sees it: 1 of 1`,
    remedy: expect.stringContaining("with several hosts, see `claviger guide models`"),
  });
  mkdirSync(join(shared, "ab"));
  writeFileSync(join(shared, "ab", SHA256), "right");
  expect(await examineFiles({ CLAVIGER_DATA_DIR: folder, CLAVIGER_MODELS_DIR: shared })).toMatchObject({
    state: "ok",
    message: "1, all there",
  });
});

test("claviger doctor compares the files in the bucket with the registry", async () => {
  bucket.objects.clear();
  expect(await examineFiles(env())).toMatchObject({
    state: "fail",
    message: `missing or cut short in the bucket ${bucket.url}, as this host sees it: 1 of 1`,
    remedy: expect.stringContaining("`claviger models move --to s3`"),
  });
  putFile();
  expect(await examineFiles(env())).toMatchObject({
    state: "ok",
    message: "1, all there",
  });
  expect(await examineFiles({ ...env(), CLAVIGER_MODELS_S3_REGION: "other" })).toMatchObject({
    state: "fail",
    message: `the bucket ${bucket.url}: the region is wrong; check CLAVIGER_MODELS_S3_REGION`,
  });
  expect(await examineFiles({ ...env(), CLAVIGER_MODELS_S3_CREDENTIALS_FILE: "/nothing" })).toMatchObject({
    state: "fail",
    message: `the bucket ${bucket.url}: /nothing: there is no such file`,
  });
});

test("findWrongModelFiles() tells files that are missing from a place that cannot be read, by a word", async () => {
  const find = (settings: Readonly<Record<string, string>>) =>
    findWrongModelFiles({ database: target.database, config: configOf(settings) });
  bucket.objects.clear();
  expect(await find(env())).toEqual({ fault: "missing", says: expect.stringContaining("1 of 1") });
  expect(await find({ ...env(), CLAVIGER_MODELS_S3_REGION: "other" })).toEqual({
    fault: "unreachable",
    says: `the bucket ${bucket.url}: the region is wrong; check CLAVIGER_MODELS_S3_REGION`,
  });
  // The folder is a file.
  const wrongFolder = { CLAVIGER_DATA_DIR: folder, CLAVIGER_MODELS_DIR: credentials };
  expect(await find(wrongFolder)).toMatchObject({ fault: "unreachable" });
  putFile();
  expect(await find(env())).toBeNull();
});

test("findWrongModelFiles() asks a second time when one answer comes late", async () => {
  putFile();
  bucket.fault = "silent";
  // The first request never gets an answer, and the second one gets it at once.
  setTimeout(() => (bucket.fault = "none"), 2_000);
  expect(await findWrongModelFiles({ database: target.database, config: configOf(env()) })).toBeNull();
});

test.concurrent("Health says within seconds that the bucket does not answer", async () => {
  const config = configOf(env());
  const { address, database } = target;
  const examineHealth = async () => {
    const brief = await examineBriefly({ config, clock: systemClock, address, database, place: "here" });
    return brief.find(({ name }) => name === "model files");
  };
  putFile();
  expect(await examineHealth()).toMatchObject({ state: "ok" });
  bucket.fault = "silent";
  const began = performance.now();
  expect(await examineHealth()).toMatchObject({
    state: "fail",
    message: `the bucket ${bucket.url} does not answer within 3 s`,
  });
  expect(performance.now() - began).toBeLessThan(5_000);
  bucket.fault = "none";
  await until(async () => (await examineHealth())?.state === "ok");
});

test.concurrent("Health asks no bucket any further after its answer is due", async () => {
  let pages = 0;
  await using endless = Bun.serve({
    port: 0,
    async fetch() {
      await Bun.sleep(100);
      const token = `<NextContinuationToken>${++pages}</NextContinuationToken>`;
      return new Response(`<IsTruncated>true</IsTruncated>${token}`);
    },
  });
  const url = `http://127.0.0.1:${endless.port}/models`;
  expect(await examineFiles({ ...env(), CLAVIGER_MODELS_S3: url })).toMatchObject({
    state: "fail",
    message: `the bucket ${url} does not answer within 3 s`,
  });
  const asked = pages;
  await Bun.sleep(500);
  expect(pages).toBeLessThanOrEqual(asked + 1);
});
