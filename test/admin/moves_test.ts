/** E-mails of accounts and licenses that move, by the API and the console: what each says before and after. */
import { beforeAll, describe, expect, test } from "bun:test";
import { parseId } from "../../src/base/ids.ts";
import { updateAccount } from "../../src/licensing/mod.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { accountOf } from "../support/keys.ts";
import { addNewModel } from "../support/new_model.ts";
import { until } from "../support/until.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { mainOf, textsOf } from "./texts_of.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  cookie = (await client.logIn("editor", "emil")).cookie;
});

const open = async (path: string) => (await client.send(path, { cookie })).text;
const submit = (path: string, form: Record<string, string>) => client.submit(path, { cookie, form });
const emailOf = async (userId: string) => (await admin.call("GET", `/accounts/${userId}`)).body.email;

/** Returns the newest row of the audit log. A list has it once every older transaction of the server has ended. */
const firstRow = (query: string) =>
  until(async () => (await admin.call("GET", `/audit?${query}`)).body.data[0]);

/** Issues a commercial key; its account owns a model with the name. */
async function withModel(email: string, name: string) {
  const key = await admin.issue({ email, tier: "commercial" });
  const fields = { name, ownerUuid: accountOf(key), requiresLicense: "commercial" };
  await addNewModel(admin.database, fields, { now: admin.clock.now() });
  return { ...key, license: `lic_${key.licenseUuid.replaceAll("-", "")}` };
}

describe("The e-mail of an account", () => {
  test("changes by the API, which tells the former one, and the audit log of every door has both", async () => {
    const { userId } = await admin.issue({ email: "api@old.example", name: "Ada" });
    const answer = await admin.call("PATCH", `/accounts/${userId}`, { body: { email: "API@new.example" } });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        id: userId,
        email: "api@new.example",
        name: "Ada",
        former_email: "api@old.example",
        changed: true,
      },
    });
    expect(await firstRow(`account=${userId}&action=account.update`)).toMatchObject({
      before: { email: "api@old.example" },
      after: { email: "api@new.example", changed: ["email"] },
    });
    expect(mainOf(await open(`/audit?account=${userId}`))).toContain(
      "email from api@old.example to api@new.example",
    );
    const again = await admin.call("PATCH", `/accounts/${userId}`, { body: { email: "api@new.example" } });
    expect(again.body).toMatchObject({ former_email: null, changed: false });
  });

  test("is refused with 409 if another account has it, and stays", async () => {
    const [first, second] = [
      await admin.issue({ email: "first@api.example" }),
      await admin.issue({ email: "second@api.example" }),
    ];
    const body = { email: "first@api.example" };
    const answer = await admin.call("PATCH", `/accounts/${second.userId}`, { body });
    expect(answer).toMatchObject({ status: 409, body: { code: "ALREADY_EXISTS" } });
    expect([await emailOf(first.userId), await emailOf(second.userId)]).toEqual([
      "first@api.example",
      "second@api.example",
    ]);
  });

  test("changes in the console, whose form says what stays and what happens to the old one", async () => {
    const { userId } = await admin.issue({ email: "console@old.example" });
    const form = textsOf(await open(`/accounts/${userId}`), "#email .action-body, #email form").join(" ");
    expect(form).toContain("1 key of it answers with the new e-mail within a second.");
    expect(form).toContain("The name repeats the e-mail, and follows.");
    expect(form).toContain("a key that is issued for it gets a new account");
    const wrong = await submit(`/accounts/${userId}/email`, { email: "console" });
    expect([wrong.status, await emailOf(userId)]).toEqual([400, "console@old.example"]);
    const { text } = await submit(`/accounts/${userId}/email`, { email: "console@new.example" });
    expect(mainOf(text)).toContain("The account was changed. E-mail: console@new.example. Name: none.");
    expect(mainOf(text)).toContain("console@old.example → console@new.example");
  });

  test("needs a fresh proof in the console", async () => {
    const { userId } = await admin.issue({ email: "proof@old.example" });
    const stale = (await client.logIn("editor", "edda")).cookie;
    await admin.clock.advance(6 * 60_000);
    const form = { email: "proof@new.example" };
    const refused = await client.submit(`/accounts/${userId}/email`, { cookie: stale, form });
    expect(mainOf(refused.text)).toContain("Only an operator who logged in within the last five minutes");
    expect(await emailOf(userId)).toBe("proof@old.example");
    cookie = (await client.logIn("editor", "emil")).cookie;
  });

  test("is among what an erasure removes", async () => {
    const { userId } = await admin.issue({ email: "erased@old.example" });
    const by = { actor: ACTOR, now: admin.clock.now() };
    const uuid = parseId("usr", userId) ?? "";
    orThrow(await updateAccount(admin.database, { uuid, email: "erased@new.example", ...by }));
    const adminCookie = (await client.logIn("admin", "olga")).cookie;
    const { text } = await client.send(`/accounts/${userId}/erasure`, { cookie: adminCookie });
    expect(mainOf(text)).toMatch(/Earlier e-mails ?1/);
  });
});

describe("A license moves", () => {
  test("by the API, after a dry run that says the same and changes nothing", async () => {
    const [old, other] = [
      await withModel("a@move.example", "of-a"),
      await withModel("b@move.example", "of-b"),
    ];
    const path = `/licenses/${old.license}/move`;
    const ask = (body: object) => admin.call("POST", path, { body: { to: "b@move.example", ...body } });
    const foreseen = await ask({ dry_run: true });
    expect(foreseen).toMatchObject({ status: 200, body: { moved: false } });
    const license = () => admin.call("GET", `/licenses/${old.license}`);
    expect((await license()).body.user_id).toBe(old.userId);
    const moved = await ask({ reason: "sold" });
    expect(moved.body).toEqual({ ...foreseen.body, moved: true });
    expect(moved.body).toMatchObject({
      from: { user_id: old.userId, email: "a@move.example" },
      to: { user_id: other.userId, email: "b@move.example", is_new: false },
      keys: 1,
      machines: 0,
      loses_models: ["of-a"],
      gets_models: ["of-b"],
    });
    expect((await license()).body.user_id).toBe(other.userId);
    expect(await firstRow(`account=${old.userId}&action=license.move`)).toMatchObject({
      reason: "sold",
      after: { user_id: other.userId },
    });
  });

  test("is refused by the API for a restricted token and for an e-mail without account", async () => {
    const old = await withModel("c@move.example", "of-c");
    const path = `/licenses/${old.license}/move`;
    const restricted = await admin.token({ restriction: { tiers: ["commercial"] } });
    const body = { to: "nobody@move.example", new_account: true };
    expect(await admin.call("POST", path, { body, token: restricted })).toMatchObject({
      status: 403,
      body: { code: "NOT_ALLOWED" },
    });
    expect(await admin.call("POST", path, { body: { to: "nobody@move.example" } })).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining("add new_account if an account with it is to be made") },
    });
    const accounts = await admin.call("GET", "/accounts?search=nobody%40move");
    expect(accounts.body.data).toEqual([]);
  });

  test("in the console, once the boxes allow a new account and the loss of a model", async () => {
    const old = await withModel("d@move.example", "of-d");
    const send = (form: Record<string, string>) =>
      submit(`/keys/${old.id}/move`, { to: "e@move.example", ...form });
    expect(mainOf(await open(`/keys/${old.id}?open=move`))).toContain(
      "Custom models stay with their account.",
    );
    const unknown = await send({});
    expect(textsOf(unknown.text, ".error")).toEqual([
      "Cannot move license: no account has the e-mail e@move.example. Check the box if the account is to be made",
    ]);
    const loses = await send({ new_account: "yes" });
    expect(textsOf(loses.text, ".error")).toEqual([
      "With e@move.example the license cannot load of-d. Check the box if that is meant",
    ]);
    expect(mainOf(await open(`/keys/${old.id}`))).toContain("d@move.example");
    const { text } = await send({ new_account: "yes", lose_models: "yes" });
    expect(mainOf(text)).toContain("The license belongs to e@move.example now, with all its keys.");
  });
});
