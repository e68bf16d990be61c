import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { newUuid, parseId } from "../../src/base/ids.ts";
import { isRefusal, type Refusal } from "../../src/base/refusal.ts";
import type { Tier } from "../../src/licensing/mod.ts";
import {
  addModel,
  createClientLists,
  listAllModels,
  parseNewModel,
  removeModel,
  retireVersion,
} from "../../src/models/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { databaseOf, overtake } from "../support/in_transaction.ts";
import { ACTOR, BRAND, issue, NOW, sentenceOf } from "../support/issue.ts";
import { newModel } from "../support/new_model.ts";
import { useForEach } from "../support/use.ts";

const BY = { actor: ACTOR, now: NOW };

const server = useForEach(createTestDatabase);

function add(fields: object, database = server.database): Promise<Refusal | undefined> {
  const model = parseNewModel(newModel(fields), BRAND);
  if (isRefusal(model)) throw new Error(model.sentence);
  return addModel(database, model, BY);
}

interface Query {
  readonly tier?: Tier;
  readonly accountUuid?: string;
  readonly updatesUntilMs?: number;
  readonly paradigm?: string;
  readonly type?: string;
}

const EVERYTHING = { tier: "enterprise", updatesUntilMs: Number.POSITIVE_INFINITY } as const;

async function list(query: Query = {}) {
  const lists = createClientLists(server.database, systemClock);
  const records = await lists.listFor({ ...EVERYTHING, accountUuid: newUuid(), ...query }, () => "");
  return records.map((record) => JSON.parse(record));
}

async function names(query: Parameters<typeof list>[0] = {}): Promise<string[]> {
  return (await list(query)).map(({ name }) => name);
}

async function account(): Promise<string> {
  return parseId("usr", (await issue(server.database, { tier: "commercial" })).userId) ?? "";
}

describe("listFor()", () => {
  test("listFor() returns the contract's fields, in the contract's order", async () => {
    const metadata = { accuracy: 0.93, training_subjects: 54 };
    await add({ metadata });
    const [record] = await list();
    expect(JSON.stringify(record)).toBe(
      JSON.stringify({
        name: "motor_imagery_4class_v1",
        version: "1.0.0",
        type: "SvcLDA",
        paradigm: "motor_imagery",
        n_features: 44,
        n_classes: 4,
        size_mb: 2.4,
        download_url: "https://models.example/m",
        checksum: `sha256:${"ab".repeat(32)}`,
        requires_license: "free",
        metadata,
      }),
    );
  });
});

describe("addModel()", () => {
  test("addModel() lists the newest version, with that version's own rules", async () => {
    await add({ version: "2.0.0" });
    await add({ version: "1.9.0", requiresLicense: "research" });
    expect(await list()).toMatchObject([{ version: "1.9.0", requires_license: "research" }]);
    expect(await names({ tier: "free" })).toEqual([]);
  });

  test("addModel() refuses an existing version, listed or not, and changes nothing", async () => {
    await add({ version: "1" });
    await add({ version: "2" });
    expect(sentenceOf(await add({ version: "1", nClasses: 3 }))).toContain("a version never changes");
    expect(await list()).toMatchObject([{ version: "2", n_classes: 4 }]);
    await removeModel(server.database, "motor_imagery_4class_v1", BY);
    expect(sentenceOf(await add({ version: "2" }))).toContain("a version never changes");
  });

  test("addModel() refuses a name that belongs to another owner, and an owner that does not exist", async () => {
    const [owner, other] = [await account(), await account()];
    const custom = { name: "custom", requiresLicense: "commercial" };
    await add({ ...custom, ownerUuid: owner });
    for (const ownerUuid of [other, undefined]) {
      expect(sentenceOf(await add({ ...custom, version: "2", ownerUuid }))).toContain(
        "belongs to another owner",
      );
    }
    const nobody = { ...custom, name: "new", ownerUuid: newUuid() };
    expect(sentenceOf(await add(nobody))).toContain("no account has the owner's id");
    expect(isRefusal(await add({ ...custom, version: "2", ownerUuid: owner }))).toBe(false);
    expect((await listAllModels(server.database)).map(({ name, version }) => [name, version])).toEqual([
      ["custom", "2"],
    ]);
  });

  test("addModel() makes one model with all versions when several calls run at once", async () => {
    const versions = Array.from({ length: 10 }, (_, i) => `1.${i}`);
    await Promise.all(versions.map((version) => add({ version })));
    const rows = await server.database.query<{ version: string }>(
      (sql) => sql`select version from model_versions order by version`,
    );
    expect(rows.map(({ version }) => version)).toEqual(versions);
    expect(await list()).toHaveLength(1);
  });
});

describe("removeModel()", () => {
  test("removeModel() removes a name from the list until a new version adds it again", async () => {
    await add({ version: "1" });
    expect(await removeModel(server.database, "motor_imagery_4class_v1", BY)).toEqual({ version: "1" });
    expect(await list()).toEqual([]);
    const again = await removeModel(server.database, "motor_imagery_4class_v1", BY);
    expect(again).toMatchObject({ code: "NOT_FOUND" });
    await add({ version: "2" });
    expect(await list()).toMatchObject([{ version: "2" }]);
    const rows = await server.database.query<{ action: string }>(
      (sql) => sql`select action from audit order by id`,
    );
    expect(rows.map(({ action }) => action)).toEqual(["model.add", "model.remove", "model.add"]);
  });

  test("removeModel() takes a version off the list that is added at the same moment, and logs that one", async () => {
    await add({ version: "1" });
    const removed = await overtake(
      server,
      (sql) => add({ version: "2" }, databaseOf(sql, server.database)),
      () => removeModel(server.database, "motor_imagery_4class_v1", BY),
    );
    expect(removed).toEqual({ version: "2" });
    const [row] = await server.database.query(
      (sql) => sql`select before from audit where action = 'model.remove'`,
    );
    expect(row).toMatchObject({ before: { listed_version: "2" } });
  });
});

describe("retireVersion()", () => {
  test("retireVersion() refuses a version that is retired at the same moment", async () => {
    await add({ version: "1" });
    const version = { name: "motor_imagery_4class_v1", version: "1" };
    const refused = await overtake(
      server,
      (sql) => retireVersion(databaseOf(sql, server.database), version, BY),
      () => retireVersion(server.database, version, BY),
    );
    expect(refused).toMatchObject({ code: "CONFLICT" });
    expect(
      await server.database.query((sql) => sql`select from audit where action = 'model.retire'`),
    ).toHaveLength(1);
  });
});
