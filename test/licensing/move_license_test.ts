/** A license moves to another account with everything that belongs to it, and custom models stay where they are. */
import { describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { parseId, toId } from "../../src/base/ids.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { eraseWithKeys, type IssueRequest, listKeys, revokeKey } from "../../src/licensing/keys/mod.ts";
import { listMachines } from "../../src/licensing/machines/mod.ts";
import {
  createLicenseChanges,
  eraseAccount,
  findAccount,
  findLicense,
  moveLicense,
} from "../../src/licensing/mod.ts";
import { overtake } from "../support/in_transaction.ts";
import { ACTOR, issue, NOW, orThrow } from "../support/issue.ts";
import { placeMachine, setPlaces } from "../support/machines.ts";
import { addNewModel } from "../support/new_model.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();
const BY = { actor: ACTOR, now: NOW };
let customers = 0;

/** Issues a key to a new account; `email` begins with a number of its own. */
async function customer(name: string, more: Partial<IssueRequest> = {}) {
  const email = `${++customers}-${name}@example.org`;
  const key = await issue(server.database, { email, tier: "commercial", ...more });
  return {
    email,
    userId: key.userId,
    accountUuid: parseId("usr", key.userId) ?? "",
    keyUuid: parseId("key", key.id) ?? "",
    licenseUuid: key.licenseUuid,
  };
}

function move(licenseUuid: string, email: string, more: Partial<Parameters<typeof moveLicense>[2]> = {}) {
  const changes = createLicenseChanges(server.database);
  return moveLicense(changes, licenseUuid, { to: { email }, ...BY, ...more });
}

async function accountOf(licenseUuid: string): Promise<string | undefined> {
  return (await findLicense(server.database, licenseUuid, { now: NOW }))?.email;
}

async function countMoves(accountUuid: string): Promise<number> {
  return (await listAudit(server.database, { accountUuid, action: "license.move" })).length;
}

describe("moveLicense()", () => {
  test("takes keys, machines and the external id along, and tells both accounts in the audit log", async () => {
    const [old, other] = [await customer("old", { externalId: "ORDER-MOVE" }), await customer("other")];
    await setPlaces(server.database, old.licenseUuid, { maxMachines: 2 });
    const machine = await placeMachine(server.database, old, "moves");
    expect(await move(old.licenseUuid, other.email)).toEqual({
      from: { id: old.userId, email: old.email },
      to: { id: other.userId, email: other.email, isNew: false },
      keys: 1,
      machines: 1,
      losesModels: [],
      getsModels: [],
    });
    expect(await findLicense(server.database, old.licenseUuid, { now: NOW })).toMatchObject({
      userId: other.userId,
      externalId: "ORDER-MOVE",
    });
    const filter = { accountUuid: other.accountUuid };
    const keys = await listKeys(server.database, { now: NOW, filter });
    expect(keys.map(({ id }) => id)).toContain(toId("key", old.keyUuid));
    const machines = await listMachines(server.database, { filter });
    expect(machines.map(({ id }) => id)).toEqual([toId("mch", machine)]);
    for (const accountUuid of [old.accountUuid, other.accountUuid]) {
      const [row] = await listAudit(server.database, { accountUuid, limit: 1 });
      expect(row).toMatchObject({
        action: "license.move",
        licenseId: toId("lic", old.licenseUuid),
        before: { user_id: old.userId },
        after: { user_id: other.userId },
      });
    }
    // Whoever asks for the license or its key reads of the move once.
    for (const of of [{ licenseUuid: old.licenseUuid }, { keyUuid: old.keyUuid }])
      expect(await listAudit(server.database, { ...of, action: "license.move" })).toMatchObject([
        { userId: other.userId },
      ]);
  });

  test("names the custom models that the license loses and gets: those that its tier may load", async () => {
    const [old, other] = [await customer("loses"), await customer("gets")];
    const of = { requiresLicense: "commercial" };
    const add = (name: string, { accountUuid: ownerUuid }: { accountUuid: string }, more = of) =>
      addNewModel(server.database, { name, ownerUuid, ...more }, { now: NOW });
    await add("lost", old);
    await add("above-the-tier", old, { requiresLicense: "enterprise" });
    await add("gained", other);
    expect(await move(old.licenseUuid, other.email, { isDryRun: true })).toMatchObject({
      losesModels: ["lost"],
      getsModels: ["gained"],
    });
    await server.database.query(
      (sql) => sql`
        update model_versions set retired_at = ${NOW}::timestamptz
         where model_id = (select id from models where name = 'lost')`,
    );
    expect(await move(old.licenseUuid, other.email)).toMatchObject({
      losesModels: [],
      getsModels: ["gained"],
    });
  });

  test("names only models whose file is there and for which the license has updates", async () => {
    const [old, other] = [
      await customer("updates", { updatesUntil: new Date("2026-11-20T23:59:59Z") }),
      await customer("has-models"),
    ];
    const add = (name: string, { accountUuid: ownerUuid }: { accountUuid: string }, at: string) =>
      addNewModel(server.database, { name, ownerUuid, requiresLicense: "commercial" }, { now: new Date(at) });
    await add("early", old, "2026-11-20T10:00:00Z");
    await add("late", old, "2026-11-21T00:00:00Z");
    await add("early-there", other, "2026-11-20T10:00:00Z");
    await add("late-there", other, "2026-11-21T00:00:00Z");
    expect(await move(old.licenseUuid, other.email)).toMatchObject({
      losesModels: ["early"],
      getsModels: ["early-there"],
    });
  });

  test.each([
    ["all of them if the feature is granted", { granted: true, until: "2030-01-01T00:00:00Z" }, ["any"]],
    ["none if it is withdrawn", { granted: false }, []],
    ["those of its tier if a grant has ended", { granted: true, until: "2026-01-01T00:00:00Z" }, []],
  ])("names custom models that the tier may not load: %s", async (_, custom_models, models) => {
    const [old, other] = [await customer("features"), await customer("there")];
    const name = `any-${customers}`;
    const requires = { ownerUuid: old.accountUuid, requiresLicense: "enterprise" };
    await addNewModel(server.database, { name, ...requires }, { now: NOW });
    const own = JSON.stringify({ custom_models });
    await server.database.query(
      (sql) => sql`
        update licenses set own_features = ${own}::text::jsonb where id = ${old.licenseUuid}::uuid`,
    );
    expect(await move(old.licenseUuid, other.email)).toMatchObject({
      losesModels: models.map(() => name),
    });
  });

  test("an erasure of the old account that began before revokes no key of the license", async () => {
    const [old, other] = [await customer("leaves"), await customer("takes")];
    const changes = createLicenseChanges(server.database);
    await overtake(
      server,
      (sql) =>
        sql`update licenses set account_id = ${other.accountUuid}::uuid where id = ${old.licenseUuid}::uuid`,
      () => eraseWithKeys(changes, old.accountUuid, { revokesKeys: true, ...BY }),
    );
    expect(await findLicense(server.database, old.licenseUuid, { now: NOW })).toMatchObject({
      email: other.email,
      keys: [{ state: "active" }],
    });
  });

  test("a dry run changes nothing, and makes no account", async () => {
    const old = await customer("dry");
    const email = "nobody-yet@example.org";
    const to = { email, mayBeNew: true };
    const foreseen = await move(old.licenseUuid, email, { to, isDryRun: true });
    expect(foreseen).toMatchObject({ to: { email, isNew: true }, keys: 1 });
    expect(await accountOf(old.licenseUuid)).toBe(old.email);
    expect(await findAccount(server.database, { email })).toBeUndefined();
    expect(await countMoves(old.accountUuid)).toBe(0);
  });

  test("makes an account only where that is allowed", async () => {
    const old = await customer("new");
    const email = "made@example.org";
    expect(await move(old.licenseUuid, email)).toMatchObject({
      code: "NOT_FOUND",
      sentence:
        "Cannot move license: no account has the e-mail made@example.org; add new_account if an account with it is to be made",
    });
    expect(await findAccount(server.database, { email })).toBeUndefined();
    expect(await accountOf(old.licenseUuid)).toBe(old.email);
    const made = await move(old.licenseUuid, email, { to: { email, mayBeNew: true } });
    expect(made).toMatchObject({ to: { email, isNew: true } });
    expect(await accountOf(old.licenseUuid)).toBe(email);
    expect(await findAccount(server.database, { email })).toMatchObject({ name: email, keys: 1 });
  });

  test("refuses what cannot be moved, and changes nothing", async () => {
    const [old, other, gone] = [await customer("stays"), await customer("target"), await customer("gone")];
    orThrow(await revokeKey(createLicenseChanges(server.database), { uuid: gone.keyUuid }, BY));
    await server.database.query(
      (sql) =>
        sql`update accounts set erasing_since = ${NOW}::timestamptz where id = ${gone.accountUuid}::uuid`,
    );
    const erased = `erased-${other.accountUuid}@erased.invalid`;
    const restricted = { restriction: { tiers: ["commercial"] as const } };
    const refusals = [
      [await move(old.licenseUuid, old.email), "CONFLICT", "has it already"],
      [await move(old.accountUuid, other.email), "NOT_FOUND", "there is no license"],
      [await move(old.licenseUuid, gone.email), "CONFLICT", "erased"],
      [await move(gone.licenseUuid, other.email), "CONFLICT", "erased"],
      [await move(old.licenseUuid, erased, { to: { email: erased, mayBeNew: true } }), "CONFLICT", "erased"],
      [await move(old.licenseUuid, other.email, restricted), "NOT_ALLOWED", "a restricted token"],
    ] as const;
    for (const [refusal, code, words] of refusals) {
      expect(refusal).toMatchObject({ code });
      expect(isRefusal(refusal) && refusal.sentence).toContain(words);
    }
    expect(await accountOf(old.licenseUuid)).toBe(old.email);
    expect(await accountOf(gone.licenseUuid)).toBe(gone.email);
    for (const { accountUuid } of [old, other, gone]) expect(await countMoves(accountUuid)).toBe(0);
  });

  test("moves in both directions at the same time, and beside an erasure, without a deadlock", async () => {
    const [one, two] = [await customer("one"), await customer("two")];
    const changes = createLicenseChanges(server.database);
    for (let round = 0; round < 20; round++) {
      const [first, second] = [await customer("a"), await customer("b")];
      orThrow(await revokeKey(changes, { uuid: first.keyUuid }, BY));
      const outcomes = await Promise.all([
        move(one.licenseUuid, round % 2 === 0 ? two.email : one.email),
        move(two.licenseUuid, round % 2 === 0 ? one.email : two.email),
        move(second.licenseUuid, first.email),
        eraseAccount(server.database, first.accountUuid, BY),
      ]);
      expect(outcomes.slice(0, 2).filter(isRefusal)).toEqual([]);
      // Either the license was faster, and the erasure is refused because it has a key, or there is no account any more.
      expect(outcomes.slice(2).filter(isRefusal).length).toBeGreaterThan(0);
      const isErased =
        (await findAccount(server.database, { uuid: first.accountUuid }))?.email !== first.email;
      expect((await accountOf(second.licenseUuid)) === first.email).toBe(
        !isErased && !isRefusal(outcomes[2]),
      );
    }
  });
});
