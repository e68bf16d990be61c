/**
 * An erased account gets no key that works, through no door. Earlier versions issued such keys: they can be suspended and
 * revoked, but not rotated, resumed or renewed.
 */
import { describe, expect, test } from "bun:test";
import { NEVER_EXPIRES } from "../../src/base/calendar.ts";
import { toId } from "../../src/base/ids.ts";
import {
  generateApiKey,
  type IssuedKey,
  parseImportLine,
  replaceKey,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../src/licensing/keys/mod.ts";
import {
  changeLicense,
  createLicenseChanges,
  eraseAccount,
  findAccount,
  renewAccount,
  updateAccount,
} from "../../src/licensing/mod.ts";
import { databaseOf, overtake } from "../support/in_transaction.ts";
import { ACTOR, BRAND, countRows, issue, NOW, orThrow, sentenceOf, tryToIssue } from "../support/issue.ts";
import { accountOf, uuidOf } from "../support/keys.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { newIdempotencyKey } from "./sample_requests.ts";

const admin = useAdmin();
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));

const BY = { actor: ACTOR, now: NOW };
const LATER = new Date("2027-05-01T00:00:00Z");
const emailOf = (key: IssuedKey) => `erased-${accountOf(key)}@erased.invalid`;

/** Issues a key for an account that is erased, as earlier versions did. */
async function keyOfErased(): Promise<IssuedKey> {
  const key = await issue(admin.database, { expiresAt: LATER });
  await admin.database.query(
    (sql) =>
      sql`update accounts set email = ${emailOf(key)}, name = 'erased' where id = ${accountOf(key)}::uuid`,
  );
  return key;
}

const WHY = /: .*the person was erased from its account/;

describe("An erased account", () => {
  test("gets no new key by its e-mail, through any door", async () => {
    const key = await keyOfErased();
    const email = emailOf(key);
    const client = createConsoleClient(admin);
    const { cookie } = await client.logIn();
    // The first request issues its token, with a row of the audit log.
    const { audit: _, ...before } = await countRows(admin.database);
    for (const written of [email, email.toUpperCase()]) {
      const body = { email: written, tier: "free" };
      const api = await admin.call("POST", "/keys", { body, headers: newIdempotencyKey() });
      expect([api.status, api.body.code]).toEqual([409, "CONFLICT"]);
      expect(api.body.error).toMatch(WHY);
      const command = await commands.run(["keys", "issue", "--email", written, "--tier", "free"]);
      expect([command.status, command.err]).toEqual([1, expect.stringMatching(WHY)]);
      const form = { ...body, mode: "live", last_day: "2999-01-01" };
      expect((await client.send("/keys/issue", { cookie, form })).text).toMatch(WHY);
      const line = JSON.stringify({ ...body, api_key: generateApiKey(BRAND, "live").apiKey });
      expect(sentenceOf(parseImportLine(line, BRAND))).toMatch(WHY);
    }
    expect(await countRows(admin.database)).toMatchObject(before);
  });

  test("hides from a restricted token that it is erased", async () => {
    const token = await admin.token({ scopes: ["keys:issue"], restriction: { tiers: ["free"] } });
    const answers = [emailOf(await keyOfErased()), "known@example.org", "known@example.org"].map(
      (email) => async () => {
        const sent = { token, headers: newIdempotencyKey(), body: { email, tier: "free" } };
        return (await admin.call("POST", "/keys", sent)).body;
      },
    );
    const [erased, , known] = [await answers[0]?.(), await answers[1]?.(), await answers[2]?.()];
    expect(erased).toEqual(known);
  });

  type Change = (key: IssuedKey) => Promise<unknown>;
  const change = (to: Parameters<typeof changeLicense>[2]["change"]): Change => {
    return ({ licenseUuid }) =>
      changeLicense(createLicenseChanges(admin.database), { licenseUuid }, { ...BY, change: to });
  };
  const refused: [name: string, Change][] = [
    [
      "rotateKey()",
      (key) =>
        rotateKey(
          createLicenseChanges(admin.database),
          { uuid: uuidOf(key), mode: "live", overlapMs: 0 },
          { ...BY, brand: BRAND },
        ),
    ],
    [
      "replaceKey()",
      async (key) => {
        await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(key) }, BY);
        const old = { uuid: uuidOf(key), mode: "live" } as const;
        return await replaceKey(createLicenseChanges(admin.database), old, { ...BY, brand: BRAND });
      },
    ],
    ["changeLicense() with an expiry", change({ expiresAt: NEVER_EXPIRES })],
    ["changeLicense() with a tier", change({ tier: "enterprise" })],
    [
      "resumeKey()",
      async (key) => {
        await suspendKey(createLicenseChanges(admin.database), uuidOf(key), BY);
        return await resumeKey(createLicenseChanges(admin.database), uuidOf(key), BY);
      },
    ],
  ];
  test.each(refused)("%s refuses its key, and changes nothing", async (_, make) => {
    const key = await keyOfErased();
    const { audit: _audit, ...before } = await countRows(admin.database);
    expect(await make(key)).toMatchObject({ code: "CONFLICT", sentence: expect.stringMatching(WHY) });
    expect(await countRows(admin.database)).toMatchObject(before);
  });

  test("is not renewed, but its keys can be revoked, and their licenses lose their external id", async () => {
    const key = await keyOfErased();
    expect(await renewAccount(createLicenseChanges(admin.database), accountOf(key), BY)).toEqual([]);
    expect(await change({ externalId: null })(key)).toMatchObject({ isChanged: false });
    expect(await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(key) }, BY)).toHaveProperty(
      "id",
    );
  });

  test("eraseAccount() refuses an account that gets a key at the same moment", async () => {
    const email = "race@example.org";
    const old = await issue(admin.database, { email, name: "Race" });
    await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(old) }, BY);
    const outcome = await overtake(
      admin.testDatabase,
      (sql) => issue(databaseOf(sql, admin.database), { email }),
      () => eraseAccount(admin.database, accountOf(old), BY),
    );
    expect(outcome).toMatchObject({ code: "CONFLICT", sentence: expect.stringContaining("try again") });
    const isAsBefore = async () => {
      expect(await findAccount(admin.database, { uuid: accountOf(old) })).toMatchObject({
        email,
        name: "Race",
      });
      const noted = await admin.database.query(
        (sql) =>
          sql`select from audit where action = 'account.erase' and account_id = ${accountOf(old)}::uuid`,
      );
      expect(noted).toEqual([]);
    };
    await isAsBefore();
    expect(await eraseAccount(admin.database, accountOf(old), BY)).toMatchObject({
      sentence: "Cannot erase account: a key of it is not revoked; revoke its keys first",
    });
    await isAsBefore();
  });

  test("eraseAccount() and replaceKey() at the same moment leave no key that works", async () => {
    for (const isErasedFirst of [true, false]) {
      const old = await issue(admin.database);
      await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(old) }, BY);
      const erase = (database = admin.database) => eraseAccount(database, accountOf(old), BY);
      const replace = (database = admin.database) =>
        replaceKey(
          createLicenseChanges(database),
          { uuid: uuidOf(old), mode: "live" },
          { ...BY, brand: BRAND },
        );
      const [first, second] = isErasedFirst ? [erase, replace] : [replace, erase];
      const outcome = await overtake(
        admin.testDatabase,
        async (sql) => orThrow(await first(databaseOf(sql, admin.database))),
        async () => await second(),
      );
      expect(outcome).toMatchObject({ code: "CONFLICT" });
    }
  });

  test("a key that is issued while the account is erased belongs to a new account", async () => {
    const email = "again@example.org";
    const old = await issue(admin.database, { email });
    await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(old) }, BY);
    const outcome = await overtake(
      admin.testDatabase,
      (sql) => eraseAccount(databaseOf(sql, admin.database), accountOf(old), BY),
      () => tryToIssue(admin.database, { email }),
    );
    expect(outcome).toMatchObject({ userId: expect.not.stringContaining(toId("usr", accountOf(old))) });
  });

  test("gets no name back from a change that waited while it was erased", async () => {
    const old = await issue(admin.database, { email: "late@example.org" });
    await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(old) }, BY);
    const uuid = accountOf(old);
    const outcome = await overtake(
      admin.testDatabase,
      (sql) => eraseAccount(databaseOf(sql, admin.database), uuid, BY),
      () => updateAccount(admin.database, { uuid, name: "Late", ...BY }),
    );
    expect(outcome).toMatchObject({ code: "CONFLICT" });
    expect(await findAccount(admin.database, { uuid })).toMatchObject({ name: "erased" });
  });

  test("has no link to a new key on the page of its revoked key, nor forms that would be refused", async () => {
    const client = createConsoleClient(admin);
    const { cookie } = await client.logIn();
    const page = async ({ id }: IssuedKey) => (await client.send(`/keys/${id}`, { cookie })).text;
    // The rare ones are links to their forms.
    const forms = (html: string) =>
      [...html.matchAll(/action="[^"]*\/([a-z-]+)"|class="opens" href="[^"]*open=([a-z-]+)/g)].map(
        ([, form, opened]) => form ?? opened,
      );
    const [erased, other] = [await keyOfErased(), await issue(admin.database)];
    const offered = [
      "suspend",
      "renew",
      "tier",
      "limit",
      "machines",
      "offline",
      "updates",
      "features",
      "values",
      "external-id",
      "move",
      "rotate",
      "license",
      "bundle",
      "revoke",
      "search",
      "logout",
    ];
    expect(forms(await page(other)).toSorted()).toEqual(offered.toSorted());
    const left = ["suspend", "external-id", "license", "bundle", "revoke", "search", "logout"];
    expect(forms(await page(erased)).toSorted()).toEqual(left.toSorted());
    for (const [key, isLinked] of [
      [other, true],
      [erased, false],
    ] as const) {
      await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(key) }, BY);
      expect((await page(key)).includes("Replace the key")).toBe(isLinked);
    }
  });
});
