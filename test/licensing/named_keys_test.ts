/**
 * A text names keys by the start or end of the key, by ids, or by the external id. Every list understands the same texts.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { toId } from "../../src/base/ids.ts";
import { type IssuedKey, listKeys, toHint } from "../../src/licensing/keys/mod.ts";
import { listAccounts, parseKeyParts, SEARCH_TEXT, searchAccounts } from "../../src/licensing/mod.ts";
import { issue, NOW } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useTestDatabase } from "../support/use.ts";

const DIGITS = "ab12cd34".padEnd(44, "0");
const KEY = `svc_live_${DIGITS}6442`;

describe("parseKeyParts()", () => {
  const start = "ab12";
  const end = "6442";
  const live = { mode: "live" };
  const texts: [text: string, parts: object | undefined][] = [
    ["6442", { start: end, end, isEither: true }],
    ["\u20266442", { end }],
    ["...6442", { end }],
    ["\u2026ab6442", { end }],
    ["svc_live_\u20266442", { ...live, end }],
    ["SVC_TEST_...6442", { mode: "test", end }],
    ["AB12", { start, end: start, isEither: true }],
    ["ab12c", { start, end: "b12c", isEither: true }],
    ["ab6442", { start: "ab64", end, isEither: true }],
    ["ab12cd34", { start, end: "cd34", isEither: true }],
    ["ab12cd345", { start }],
    ["ab12\u2026", { start }],
    ["ab12cd34...", { start }],
    ["svc_live_ab12", { ...live, start }],
    ["svc_live_ab12cd34", { ...live, start }],
    ["acme7_live_ab12", { ...live, start }],
    ["svc_live_ab12\u20266442", { ...live, start, end }],
    ["ab12...6442", { start, end }],
    [KEY, { ...live, start, end }],
    [KEY.slice(9), { start, end }],
    ...[
      "",
      "644",
      "xyz1",
      "svc_live_",
      "svc_live_ab1",
      "svc_op_ab12",
      "\u2026",
      "...",
      "6442 ab12",
      `${KEY}0`,
    ].map((text): [string, undefined] => [text, undefined]),
    ["ab12%", undefined],
    ["ab1_", undefined],
  ];
  test.each(texts)("parseKeyParts() reads %s", (text, parts) => {
    const read = parseKeyParts(text);
    expect(read && JSON.parse(JSON.stringify(read))).toEqual(parts);
  });
});

test("SEARCH_TEXT accepts the start of a key up to seven digits, and no longer one", () => {
  for (const text of ["svc_live_ab12cd3", "\u20266442", "ab12cd34", "key_019a2b3c4d5e6f708192a3b4c5d6e7f8"])
    expect(SEARCH_TEXT.parse(text)).toBe(text);
  for (const text of ["svc_live_ab12cd34", KEY, KEY.toUpperCase(), DIGITS, `my key ${KEY}`, "", "--", "a\nb"])
    expect(SEARCH_TEXT.parse(text)).toBeUndefined();
});

describe("a search", () => {
  const server = useTestDatabase();
  let [one, other, before] = [{}, {}, {}] as IssuedKey[] as [IssuedKey, IssuedKey, IssuedKey];

  /** Gives a key another hint. */
  const setHint = (key: IssuedKey, hint: string) =>
    server.database.query((sql) => sql`update keys set hint = ${hint} where id = ${uuidOf(key)}::uuid`);

  beforeAll(async () => {
    one = await issue(server.database, { email: "one@example.org", externalId: "ORDER-17" });
    other = await issue(server.database, { email: "other@example.org", externalId: "6442", mode: "test" });
    before = await issue(server.database, {
      email: "before@example.org",
      organization: "6442 GmbH",
      externalId: "Order-1\u00c4",
    });
    await setHint(one, toHint(KEY));
    await setHint(other, "svc_test_6442\u2026ffff");
    await setHint(before, "svc_live_\u20266442");
  });

  const cases: [text: string, emails: string[]][] = [
    ["6442", ["one", "other", "before"]],
    ["\u20266442", ["one", "before"]],
    ["...6442", ["one", "before"]],
    ["ending in 6442", ["one", "before"]],
    ["cd6442", ["one", "before"]],
    [" ...6442 ", ["one", "before"]],
    ["svc_live_\u20266442", ["one", "before"]],
    ["svc_test_\u20266442", []],
    ["ab12", ["one"]],
    ["ab12cd34", ["one"]],
    ["svc_live_ab12", ["one"]],
    ["svc_test_ab12", []],
    ["svc_test_6442", ["other"]],
    ["ab12\u20266442", ["one", "before"]],
    ["ab13\u20266442", ["before"]],
    ["ab12\u20266443", []],
    ["order-17", ["one"]],
    ["Order 17", ["one"]],
    ["order #17", ["one"]],
    ["ORDER", ["one", "before"]],
    ["order-1", ["one", "before"]],
    // A whole external id, and not the longer ones.
    ["order-1\u00e4", ["before"]],
    ["order-1\u00c4", ["before"]],
    ["rder-17", []],
    ["order-%", []],
    ["order-18", []],
    ["\u201eorder-17\u201c", ["one"]],
    ["\u201c\u20266442\u201d", ["one", "before"]],
    ["\u00ab svc_live_ab12 \u00bb", ["one"]],
    ["'...6442'", ["one", "before"]],
    ['"6442"', ["one", "other", "before"]],
    ["one@example.org", ["one"]],
    ["%", []],
    ["a_12", []],
  ];
  test.each(cases)("for %j finds the same keys, and their accounts", async (text, names) => {
    const search = await searchAccounts(server.database, text);
    const keys = await listKeys(server.database, { now: NOW, filter: { search, limit: 50 } });
    const emails = names.map((name) => `${name}@example.org`);
    expect(keys.map(({ email }) => email)).toEqual(emails);
    expect((await listAccounts(server.database, { search })).map(({ email }) => email)).toEqual(emails);
  });

  test("finds keys and accounts by their whole ids", async () => {
    for (const text of [one.id, toId("lic", one.licenseUuid), one.userId]) {
      const search = await searchAccounts(server.database, text);
      const keys = await listKeys(server.database, { now: NOW, filter: { search } });
      expect({ text, ids: keys.map(({ id }) => id) }).toEqual({ text, ids: [one.id] });
      expect(await listAccounts(server.database, { search })).toHaveLength(1);
      const none = await searchAccounts(server.database, text.replace(/.{6}$/, "000000"));
      expect(await listKeys(server.database, { now: NOW, filter: { search: none } })).toEqual([]);
    }
  });

  test("finds at most a thousand external ids by their beginning, and a whole one among more", async () => {
    await server.database.query(
      (sql) => sql`
        with account as (
          insert into accounts (id, email, name, organization, created_at)
          values (gen_random_uuid(), 'shop@example.org', 'Shop', '', now()) returning id)
        insert into licenses (id, account_id, tier, expires_at, created_at, external_id)
        select gen_random_uuid(), account.id, 'free', now() + interval '1 day', now(), 'SHOP_' || n
          from account, generate_series(1, 1200) as n`,
    );
    const all = await searchAccounts(server.database, "shop");
    expect([all.licenseUuids.length, all.isTooWide]).toEqual([1_000, true]);
    const whole = await searchAccounts(server.database, "shop 1");
    expect([whole.licenseUuids.length, whole.isTooWide]).toEqual([1, false]);
    const none = await searchAccounts(server.database, "shop-1201");
    expect([none.licenseUuids.length, none.isTooWide]).toEqual([0, false]);
  });

  test("shows the end of the id of a key whose text is not known", async () => {
    const plain = await issue(server.database, { email: "plain@example.org", mode: "test" });
    await setHint(plain, "svc_test_\u2026");
    const keys = await listKeys(server.database, { now: NOW });
    const shown = Object.fromEntries(keys.map(({ id, hint }) => [id, hint]));
    expect(shown[plain.id]).toBe(`svc_test_\u2026 id \u2026${plain.id.slice(-6)}`);
    expect(shown[before.id]).toBe("svc_live_\u20266442");
  });
});
