/** An account gets another e-mail and keeps everything, and nothing of an erased person stays. */
import { describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { parseId } from "../../src/base/ids.ts";
import { revokeKey } from "../../src/licensing/keys/mod.ts";
import {
  createLicenseChanges,
  eraseAccount,
  findAccount,
  searchAccounts,
  updateAccount,
} from "../../src/licensing/mod.ts";
import { ACTOR, issue, NOW, orThrow } from "../support/issue.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase();
const BY = { actor: ACTOR, now: NOW };

/** Issues a key, and returns the UUIDs of its account and of the key. */
async function customer(email: string, more: { readonly name?: string } = {}) {
  const key = await issue(server.database, { email, ...more });
  return {
    uuid: parseId("usr", key.userId) ?? "",
    keyUuid: parseId("key", key.id) ?? "",
    userId: key.userId,
  };
}

async function newestRow(accountUuid: string) {
  const [row] = await listAudit(server.database, { accountUuid, limit: 1 });
  return row;
}

function countFormer(accountUuid: string): Promise<{ rows: number }[]> {
  return server.database.query<{ rows: number }>(
    (sql) => sql`select count(*) as rows from former_emails where account_id = ${accountUuid}::uuid`,
  );
}

describe("updateAccount() with an e-mail", () => {
  test("keeps the account, tells both e-mails, and the audit log has them", async () => {
    const { uuid, userId } = await customer("ada@old.example", { name: "Ada" });
    const { database } = server;
    expect(await updateAccount(database, { uuid, email: "ada@new.example", ...BY })).toEqual({
      email: "ada@new.example",
      name: "Ada",
      organization: "",
      isChanged: true,
      formerEmail: "ada@old.example",
    });
    expect(await findAccount(database, { email: "ada@new.example" })).toMatchObject({ id: userId, keys: 1 });
    expect(await findAccount(database, { email: "ada@old.example" })).toBeUndefined();
    expect(await newestRow(uuid)).toMatchObject({
      action: "account.update",
      before: { email: "ada@old.example" },
      after: { email: "ada@new.example", changed: ["email"] },
    });
  });

  test("lets a name follow that repeats the e-mail, unless another name is given", async () => {
    const { uuid } = await customer("follows@old.example");
    expect(await updateAccount(server.database, { uuid, email: "follows@new.example", ...BY })).toMatchObject(
      { name: "follows@new.example" },
    );
    expect((await newestRow(uuid))?.after).toMatchObject({ changed: ["email", "name"] });
    const named = { uuid, email: "follows@last.example", name: "Eve", ...BY };
    expect(await updateAccount(server.database, named)).toMatchObject({ name: "Eve" });
  });

  test("changes nothing if the account has the e-mail already", async () => {
    const { uuid } = await customer("same@old.example");
    expect(await updateAccount(server.database, { uuid, email: "same@old.example", ...BY })).toMatchObject({
      isChanged: false,
      formerEmail: undefined,
    });
    expect((await newestRow(uuid))?.action).toBe("key.issue");
    expect(await countFormer(uuid)).toEqual([{ rows: 0 }]);
  });

  test("notes no e-mail if only the name changes", async () => {
    const { uuid } = await customer("named@old.example");
    orThrow(await updateAccount(server.database, { uuid, name: "Named", ...BY }));
    expect(await countFormer(uuid)).toEqual([{ rows: 0 }]);
    expect(await newestRow(uuid)).toMatchObject({ before: null, after: { changed: ["name"] } });
  });

  test("refuses the e-mail of another account, and changes nothing", async () => {
    const [first, second] = [await customer("first@taken.example"), await customer("second@taken.example")];
    const change = { uuid: second.uuid, email: "first@taken.example", name: "Second", ...BY };
    expect(await updateAccount(server.database, change)).toMatchObject({
      code: "ALREADY_EXISTS",
      sentence:
        "Cannot update account: another account has the e-mail first@taken.example; move the licenses of one of the two to the other",
    });
    expect(await findAccount(server.database, { uuid: second.uuid })).toMatchObject({
      email: "second@taken.example",
      name: "second@taken.example",
    });
    expect((await newestRow(second.uuid))?.action).toBe("key.issue");
    expect(await countFormer(first.uuid)).toEqual([{ rows: 0 }]);
  });

  test("refuses the e-mail of an erased account, its own or another one, and changes nothing", async () => {
    const [one, other] = [await customer("one@living.example"), await customer("other@living.example")];
    for (const { uuid } of [one, other]) {
      const change = { uuid: one.uuid, email: `erased-${uuid}@erased.invalid`, ...BY };
      expect(await updateAccount(server.database, change)).toMatchObject({
        code: "CONFLICT",
        sentence:
          "Cannot update account: the e-mail names no account: the person was erased from its account",
      });
    }
    const found = await findAccount(server.database, { uuid: one.uuid });
    expect(found).toMatchObject({ email: "one@living.example", erasedAt: null });
  });

  test("leaves the old e-mail to a new account", async () => {
    const { uuid, userId } = await customer("free@old.example");
    orThrow(await updateAccount(server.database, { uuid, email: "free@new.example", ...BY }));
    expect((await issue(server.database, { email: "free@old.example" })).userId).not.toBe(userId);
  });

  test("is found by its old e-mail, too", async () => {
    const { uuid } = await customer("findable@former.example");
    orThrow(await updateAccount(server.database, { uuid, email: "findable@present.example", ...BY }));
    for (const text of ["findable@former.example", "former", "present"])
      expect((await searchAccounts(server.database, text)).accountUuids).toEqual([uuid]);
  });

  test("keeps no e-mail of a person who is erased, in a table or in the audit log", async () => {
    const { database } = server;
    const { uuid, keyUuid } = await customer("gone@old.example");
    orThrow(await updateAccount(database, { uuid, email: "gone@new.example", ...BY }));
    orThrow(await revokeKey(createLicenseChanges(database), { uuid: keyUuid }, BY));
    orThrow(await eraseAccount(database, uuid, BY));
    expect(await countFormer(uuid)).toEqual([{ rows: 0 }]);
    expect((await searchAccounts(database, "gone")).accountUuids).toEqual([]);
    const rows = await listAudit(database, { accountUuid: uuid });
    expect(rows.map(({ action }) => action)).toContain("account.update");
    expect(JSON.stringify(rows)).not.toMatch(/gone@/);
    expect(await updateAccount(database, { uuid, email: "gone@back.example", ...BY })).toMatchObject({
      code: "CONFLICT",
    });
    expect(await countFormer(uuid)).toEqual([{ rows: 0 }]);
  });
});
