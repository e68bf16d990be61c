import { beforeAll, describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import {
  addModel,
  findRegistered,
  listRegistered,
  parseNewModel,
  removeModel,
  retireVersion,
} from "../../src/models/mod.ts";
import { ACTOR, BRAND, issue, NOW } from "../support/issue.ts";
import { newModel } from "../support/new_model.ts";
import { useTestDatabase } from "../support/use.ts";

const BY = { actor: ACTOR, now: NOW };

const server = useTestDatabase();
let owner: IssuedKey;
beforeAll(async () => {
  const { database } = server;
  owner = await issue(database, { email: "owner@example.org" });
  await add({ name: "first", sizeMb: 1.5 });
  await add({ name: "first", version: "2.0.0", sizeMb: 2.5 });
  await add({
    name: "custom",
    requiresLicense: "commercial",
    ownerUuid: parseId("usr", owner.userId),
    downloadUrl: null,
    hostedBytes: 700_000,
    sizeMb: 0,
  });
  await add({ name: "removed" });
  await removeModel(database, "removed", BY);
  await retireVersion(database, { name: "first", version: "1.0.0" }, BY);
});

async function add(fields: object): Promise<void> {
  const model = parseNewModel(newModel(fields), BRAND);
  if (isRefusal(model)) throw new Error(model.sentence);
  const added = await addModel(server.database, model, BY);
  if (isRefusal(added)) throw new Error(added.sentence);
}

describe("The registered models", () => {
  test("are listed newest first, also without a listed version, with the version that is listed or newest", async () => {
    const { database } = server;
    const all = await listRegistered(database, { limit: 10 });
    expect(
      all.map(({ name, listedVersion, versions, shown }) => [name, listedVersion, versions, shown.version]),
    ).toEqual([
      ["removed", null, 1, "1.0.0"],
      ["custom", "1.0.0", 1, "1.0.0"],
      ["first", "2.0.0", 2, "2.0.0"],
    ]);
    expect(all[1]).toMatchObject({
      owner: { id: owner.userId, email: "owner@example.org" },
      shown: { isHosted: true, sizeMb: 0.7, requiresLicense: "commercial", retiredAt: null },
    });
    expect(all[2]).toMatchObject({ owner: null, shown: { isHosted: false, sizeMb: 2.5 } });
    const next = await listRegistered(database, { afterUuid: all[0]?.uuid, limit: 1 });
    expect(next.map(({ name }) => name)).toEqual(["custom"]);
  });

  test("are found by name with every version, newest first", async () => {
    const found = await findRegistered(server.database, "first");
    expect(found?.versions.map(({ version, retiredAt }) => [version, retiredAt])).toEqual([
      ["2.0.0", null],
      ["1.0.0", NOW],
    ]);
    expect(found?.model.listedVersion).toBe("2.0.0");
    for (const unknown of ["second", "", "a\u0000b", "' or 1=1 --"]) {
      expect(await findRegistered(server.database, unknown)).toBeUndefined();
    }
  });
});
