/** The published keys are read once a second at most, because anyone may ask for them without a limit. */
import { beforeAll, expect, test } from "bun:test";
import type { Database } from "../../../src/database/mod.ts";
import {
  createPublishedKeys,
  ensureSigningKeys,
  rotateSigningKey,
} from "../../../src/licensing/signed_licenses/mod.ts";
import { ACTOR, NOW } from "../../support/issue.ts";
import { openSecrets } from "../../support/secrets.ts";
import { useTestDatabase } from "../../support/use.ts";

const testDatabase = useTestDatabase();
const secrets = openSecrets();

beforeAll(async () => {
  await ensureSigningKeys(testDatabase.database, { secrets, now: NOW });
});

test("createPublishedKeys() reads the table once a second, and again at once after a failure", async () => {
  const { database } = testDatabase;
  let [queries, monotonicMs, isBroken] = [0, 0, false];
  const counted: Database = {
    ...database,
    async query(build, options) {
      queries++;
      if (isBroken) throw new Error("no database");
      return await database.query(build, options);
    },
  };
  const clock = { now: () => NOW, nowMs: () => NOW.getTime(), monotonicMs: () => monotonicMs };
  const publishedKeys = createPublishedKeys(counted, clock);
  const answers = await Promise.all(Array.from({ length: 100 }, () => publishedKeys()));
  expect([queries, new Set(answers).size]).toEqual([1, 1]);
  await rotateSigningKey(database, { secrets, actor: ACTOR, now: NOW });
  monotonicMs = 999;
  expect((await publishedKeys()).etag).toBe(answers[0]?.etag ?? "");
  monotonicMs = 1_000;
  expect((await publishedKeys()).etag).not.toBe(answers[0]?.etag ?? "");
  expect(queries).toBe(2);
  monotonicMs = 2_000;
  isBroken = true;
  expect(publishedKeys()).rejects.toThrow("no database");
  await Promise.resolve(publishedKeys()).catch(() => {});
  isBroken = false;
  expect(JSON.parse((await publishedKeys()).body).keys).toHaveLength(3);
});
