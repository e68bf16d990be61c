import { beforeAll, expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { explainFailure, openDatabase } from "../../src/database/mod.ts";
import { createTestDatabase } from "../support/database.ts";

/** What a server says about a database that does not exist. */
let missing: unknown;
beforeAll(async () => {
  const { address, close } = await createTestDatabase({ empty: true });
  await close();
  await using database = openDatabase(address, { clock: systemClock, log: silentLog, deadlineMs: 15_000 });
  missing = await database.query((sql) => sql`select`).catch((reason: unknown) => reason);
});

test("explainFailure() takes a missing database inside for damage, and gives no advice about DATABASE_URL", () => {
  expect(explainFailure(missing, { isInside: true })).toEqual({
    why: expect.stringMatching(/^database ".+" does not exist \(3D000\)$/),
    remedy: "its data is damaged: check its disk, and restore a backup",
    isRefused: true,
    needsPerson: true,
    damage: expect.stringMatching(/^database ".+" does not exist$/),
  });
});

test("explainFailure() gives advice about DATABASE_URL for a missing database of another server", () => {
  expect(explainFailure(missing, { isInside: false })).toMatchObject({
    remedy: "create it, or correct its name in DATABASE_URL",
    needsPerson: true,
    damage: undefined,
  });
});
