import { describe, expect, test } from "bun:test";
import { newUuid, parseId, toId } from "../../src/base/ids.ts";
import { refuse } from "../../src/base/refusal.ts";
import { revokeKey } from "../../src/licensing/keys/mod.ts";
import {
  createLicenseChanges,
  eraseAccount,
  findAccount,
  findEmails,
  listAccounts,
  parseEmail,
  searchAccounts,
  updateAccount,
} from "../../src/licensing/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, countRows, issue, NOW } from "../support/issue.ts";
import { useForEach } from "../support/use.ts";

describe("parseEmail()", () => {
  const good: [text: string, email: string][] = [
    ["ada@example.org", "ada@example.org"],
    ["Ada.Lovelace+SDK@Example.ORG", "ada.lovelace+sdk@example.org"],
    ["a@b", "a@b"],
    ["o'neil@sub-domain.example.co.uk", "o'neil@sub-domain.example.co.uk"],
    [`${"a".repeat(64)}@example.org`, `${"a".repeat(64)}@example.org`],
    ["user@bücher.example", "user@xn--bcher-kva.example"],
    ["User@Mail.B\u0075\u0308cher.Example", "user@mail.xn--bcher-kva.example"],
    ["user@日本.example", "user@xn--wgv71a.example"],
  ];

  test.each(good)("parseEmail() reads %s", (text, email) => {
    expect(parseEmail(text)).toBe(email);
  });

  test.each([
    "",
    "ada",
    "@example.org",
    "ada@",
    "ada@@example.org",
    "ada@example..org",
    "ada@.example.org",
    "ada@example.org.",
    "ada@-example.org",
    "ada@example-.org",
    " ada@example.org",
    "ada@example.org\n",
    "ada lovelace@example.org",
    "adä@example.org",
    "adä@exämple.org",
    "ada@exämple.org.",
    "ada@exämple..org",
    "ada@exämple.org/",
    "ada@exämple.org:25",
    "ada@ex\u00e4mple.org\u200b",
    "ada@ex%61mple.\u00f6rg",
    "ada@example.org\u0000",
    `${"a".repeat(65)}@example.org`,
    `a@${"b".repeat(253)}`,
    // Mail and DNS have each label with eight characters.
    `a@${"ö.".repeat(40)}example`,
  ])("parseEmail() refuses %j", (text) => {
    expect(parseEmail(text)).toBeUndefined();
  });

  test("parseEmail() does not turn similar letters into another account's address", () => {
    // U+212A, the kelvin sign, becomes k in lower case.
    expect(parseEmail("\u212aelvin@example.org")).toBeUndefined();
    expect(parseEmail("ada@\u212aelvin.example.org")).toBeUndefined();
    // A Cyrillic letter in place of a Latin one makes another domain.
    expect(parseEmail("ada@ex\u0430mple.org")).toStartWith("ada@xn--");
  });
});

describe("accounts", () => {
  const server = useForEach(createTestDatabase);

  test("listAccounts() lists the oldest accounts first, with their number of keys", async () => {
    for (const email of ["b@example.org", "a_@example.org", "a1@example.org", "b@example.org"]) {
      await issue(server.database, { email });
    }
    const listed = await listAccounts(server.database);
    expect(listed.map(({ email, keys }) => [email, keys])).toEqual([
      ["b@example.org", 2],
      ["a_@example.org", 1],
      ["a1@example.org", 1],
    ]);
    const newest = await listAccounts(server.database, { newestFirst: true, limit: 2 });
    expect(newest.map(({ email }) => email)).toEqual(["a1@example.org", "a_@example.org"]);
    const older = await listAccounts(server.database, { newestFirst: true, afterUuid: newest[1]?.uuid });
    expect(older.map(({ email }) => email)).toEqual(["b@example.org"]);
  });

  test("searchAccounts() finds accounts by the beginnings of words, whatever separates the words", async () => {
    const { userId } = await issue(server.database, {
      email: "lin.o_brien-7@lab2.example.com",
      name: "Lin O'Brien",
      organization: "Universit\u00e9 de Li\u00e8ge, Dept. 3",
    });
    const find = async (text: string) => {
      const { accountUuids } = await searchAccounts(server.database, text);
      return accountUuids.map((uuid) => toId("usr", uuid));
    };
    for (const text of [
      "lin",
      "LI",
      "brien",
      "o'bri",
      "lin.o_brien-7@lab2.example.com",
      "lab2 com",
      "lab",
      "7",
      "univ li\u00e8ge",
      "Li\u00e8g 3",
      "'lin':* & \\!",
    ]) {
      expect([text, await find(text)]).toEqual([text, [userId]]);
    }
    for (const text of ["in", "rien", "lin ada", "lab3", "ab2"]) {
      expect([text, await find(text)]).toEqual([text, []]);
    }
  });

  test("searchAccounts() finds an e-mail whose domain has letters beyond ASCII, as people write it", async () => {
    const { userId } = await issue(server.database, { email: "user@xn--bcher-kva.example" });
    for (const text of [
      "user@b\u00fccher.example",
      "User@B\u00dcCHER.example",
      "user@xn--bcher-kva.example",
    ]) {
      const { accountUuids } = await searchAccounts(server.database, text);
      expect([text, accountUuids.map((uuid) => toId("usr", uuid))]).toEqual([text, [userId]]);
    }
    expect((await searchAccounts(server.database, "other@b\u00fccher.example")).accountUuids).toEqual([]);
  });

  test("searchAccounts() returns at most a thousand accounts, and says when there are more", async () => {
    const fill = (count: number) =>
      server.database.query(
        (sql) => sql`
          insert into accounts (id, email, name, created_at)
          select gen_random_uuid(), 'many-' || gen_random_uuid() || '@many.example', 'Many', ${NOW}::timestamptz
            from generate_series(1, ${count})`,
      );
    const search = async () => {
      const found = await searchAccounts(server.database, "many");
      return [found.accountUuids.length, found.isTooWide];
    };
    await fill(1_000);
    expect(await search()).toEqual([1_000, false]);
    await fill(1);
    expect(await search()).toEqual([1_000, true]);
  });

  test("findAccount() finds an account by e-mail and by UUID", async () => {
    const { userId } = await issue(server.database, { email: "find@example.org", name: "Find" });
    const uuid = parseId("usr", userId) ?? "";
    const account = { id: userId, uuid, email: "find@example.org", name: "Find", organization: "", keys: 1 };
    expect(await findAccount(server.database, { email: "find@example.org" })).toMatchObject(account);
    expect(await findAccount(server.database, { uuid })).toMatchObject(account);
    expect(await findAccount(server.database, { uuid: newUuid() })).toBeUndefined();
  });

  test("findEmails() finds the e-mails of accounts, but none of an erased account", async () => {
    const kept = await issue(server.database, { email: "kept@example.org" });
    const erased = await issue(server.database, { email: "erased@example.org" });
    const uuids = [kept, erased].map(({ userId }) => parseId("usr", userId) ?? "");
    expect(await findEmails(server.database, uuids)).toEqual(
      new Map([
        [kept.userId, "kept@example.org"],
        [erased.userId, "erased@example.org"],
      ]),
    );
    const by = { actor: ACTOR, now: NOW };
    await revokeKey(createLicenseChanges(server.database), { uuid: parseId("key", erased.id) ?? "" }, by);
    expect(await eraseAccount(server.database, uuids[1] ?? "", by)).toEqual({ isPersonal: true });
    expect(await findEmails(server.database, [...uuids, newUuid()])).toEqual(
      new Map([[kept.userId, "kept@example.org"]]),
    );
  });

  test("searchAccounts() does not find an erased account by the e-mail that it got", async () => {
    const gone = await issue(server.database, { email: "gone@example.org" });
    const uuid = parseId("usr", gone.userId) ?? "";
    const by = { actor: ACTOR, now: NOW };
    await revokeKey(createLicenseChanges(server.database), { uuid: parseId("key", gone.id) ?? "" }, by);
    const isFound = async (text: string) =>
      (await searchAccounts(server.database, text)).accountUuids.includes(uuid);
    expect(await isFound("gone")).toBe(true);
    await eraseAccount(server.database, uuid, by);
    const email = (await findAccount(server.database, { uuid }))?.email ?? "";
    // The third group of an identifier begins with 7.
    for (const text of ["gone", "7", "erased", "invalid", email]) expect(await isFound(text)).toBe(false);
  });

  test("updateAccount() refuses an erased account, and eraseAccount() erases a name that came back", async () => {
    const gone = await issue(server.database, {
      email: "back@example.org",
      name: "Gone",
      organization: "Lab",
    });
    const uuid = parseId("usr", gone.userId) ?? "";
    const by = { actor: ACTOR, now: NOW };
    await revokeKey(createLicenseChanges(server.database), { uuid: parseId("key", gone.id) ?? "" }, by);
    await eraseAccount(server.database, uuid, by);
    expect(await updateAccount(server.database, { uuid, name: "Gone", organization: "Lab", ...by })).toEqual(
      refuse("CONFLICT", "Cannot update account: it is erased"),
    );
    const erased = { name: "erased", organization: "" };
    expect(await findAccount(server.database, { uuid })).toMatchObject(erased);

    // As earlier versions allowed it.
    await server.database.query((sql) => sql`update accounts set name = 'Gone' where id = ${uuid}::uuid`);
    expect(await eraseAccount(server.database, uuid, by)).toEqual({ isPersonal: true });
    expect(await findAccount(server.database, { uuid })).toMatchObject(erased);
    expect(await eraseAccount(server.database, uuid, by)).toEqual({ isPersonal: false });
  });

  test("updateAccount() changes the given fields and writes an audit row, and issuing uses the new values", async () => {
    const account = { email: "change@example.org", name: "Before", organization: "Here" };
    const { userId } = await issue(server.database, account);
    const change = { uuid: parseId("usr", userId) ?? "", actor: { ...ACTOR, reason: "married" }, now: NOW };
    expect(await updateAccount(server.database, { ...change, name: "After" })).toMatchObject({
      name: "After",
      organization: "Here",
    });
    await issue(server.database, { ...account, name: "After" });
    const [row] = await server.database.query(
      (sql) => sql`
        select account_id, at, reason from audit where action = 'account.update' order by id desc limit 1`,
    );
    expect(row).toEqual({ account_id: change.uuid, at: NOW, reason: "married" });
  });

  test("updateAccount() refuses an account that does not exist, and writes nothing", async () => {
    const before = await countRows(server.database);
    const change = { uuid: newUuid(), name: "Nobody", actor: ACTOR, now: NOW };
    expect(await updateAccount(server.database, change)).toMatchObject({ code: "NOT_FOUND" });
    expect(await countRows(server.database)).toEqual(before);
  });
});
