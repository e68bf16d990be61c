import { describe, expect, test } from "bun:test";
import { monthOf, NEVER_EXPIRES } from "../../../src/base/calendar.ts";
import { toId } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import { openSession } from "../../../src/database/mod.ts";
import {
  findKey,
  generateApiKey,
  hashApiKey,
  type ImportedKey,
  importKeys,
  type LineOfImport,
  parseImportLine,
} from "../../../src/licensing/keys/mod.ts";
import { oneYearAfter } from "../../../src/licensing/mod.ts";
import { importedUsageCte } from "../../../src/usage/mod.ts";
import { ACTOR, BRAND, countRows, issue, NOW, sentenceOf } from "../../support/issue.ts";
import { useForAll, useTestDatabase } from "../../support/use.ts";

const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;
const SHA256 = "ab".repeat(32);
const LINE = { api_key: KEY, email: "ada@example.org", tier: "research" };

describe("parseImportLine()", () => {
  test("parseImportLine() reads a line with a key, and sets defaults for omitted fields", () => {
    expect(parse(LINE)).toMatchObject({
      ...{ hash: hashApiKey(KEY), hint: "svc_live_0123…cdef", mode: "live", email: "ada@example.org" },
      ...{ tier: "research", organization: "", used: 0 },
    });
  });

  test("parseImportLine() reads a line with a hash and every possible field", () => {
    const { api_key: _, ...rest } = LINE;
    const all = {
      name: "Ada",
      organization: "Engines",
      expires_at: "2027-01-31T00:00:00Z",
      monthly_limit: 5,
      max_machines: 1_000_000,
      seat_minutes: 1_440,
      used: 6,
      external_id: "Bestellung № 7",
    };
    expect(parse({ ...rest, ...all, sha256: SHA256, mode: "test", email: "ADA@example.org" })).toMatchObject({
      ...{ hash: SHA256, hint: "svc_test_…", mode: "test", email: "ada@example.org", name: "Ada" },
      ...{ ...all, expires_at: new Date("2027-01-31T00:00:00Z") },
    });
  });

  const wrong: [line: unknown, sentence: RegExp][] = [
    [[], /^it is not a JSON object$/],
    [null, /^it is not a JSON object$/],
    ["svc", /^it is not a JSON object$/],
    [{ ...LINE, api_key: undefined }, /^it needs api_key or sha256, and not both$/],
    [{ ...LINE, sha256: SHA256 }, /^it needs api_key or sha256, and not both$/],
    [{ ...LINE, api_key: KEY.toUpperCase() }, /^api_key must be svc_live_ or svc_test_ and 48/],
    [{ ...LINE, api_key: 5 }, /^api_key must be a string$/],
    [{ ...LINE, api_key: undefined, sha256: SHA256 }, /^sha256 needs mode, live or test$/],
    [{ ...LINE, api_key: undefined, sha256: KEY, mode: "live" }, /^sha256 must be 64 lowercase/],
    [{ ...LINE, api_key: undefined, sha256: 5, mode: "live" }, /^sha256 must be a string$/],
    [{ ...LINE, mode: "test" }, /^mode and api_key differ$/],
    [{ ...LINE, mode: KEY }, /^mode must be one of live, test$/],
    [{ ...LINE, email: undefined }, /^email is missing$/],
    [{ ...LINE, email: KEY }, /^email must be an e-mail address, and no API key$/],
    [{ ...LINE, own_features: "Custom" }, /^own_features must be names of features separated by commas/],
    [{ ...LINE, own_features: { a: { granted: 1 } } }, /^own_features.a.granted must be true or false$/],
    [{ ...LINE, own_entitlements: "channels" }, /^own_entitlements must be values separated by commas/],
    [
      { ...LINE, own_entitlements: { channels: [1] } },
      /^own_entitlements.channels must be a number of at most 15 digits, true, false, or/,
    ],
    [
      { ...LINE, own_features: { [KEY]: true } },
      /^own_features\.\[key\] has a name that must be a name of 1 to 64/,
    ],
    [{ ...LINE, tier: undefined }, /^tier is missing$/],
    [{ ...LINE, tier: "trial" }, /^tier must be one of free, research, commercial, enterprise$/],
    [{ ...LINE, name: "" }, /^name must be one line of 1 to 200 characters, and no API key$/],
    [{ ...LINE, name: "a\u0000b" }, /^name must be one line/],
    [{ ...LINE, organization: "\ud800" }, /^organization must be one line/],
    [{ ...LINE, organization: "x".repeat(201) }, /^organization must be one line of at most 200 characters/],
    [
      { ...LINE, expires_at: "2027-02-30T00:00:00Z" },
      /^expires_at must be a day such as 2027-01-31, or an ISO 8601 timestamp/,
    ],
    [{ ...LINE, expires_at: 5 }, /^expires_at must be a day such as 2027-01-31, or an ISO 8601 timestamp/],
    [{ ...LINE, monthly_limit: -1 }, /^monthly_limit must be a whole number, at least 0$/],
    [{ ...LINE, monthly_limit: 2 ** 53 }, /^monthly_limit must be a whole number, at least 0$/],
    [{ ...LINE, max_machines: 0 }, /^max_machines must be a whole number from 1 to 1000000$/],
    [{ ...LINE, seat_minutes: 4 }, /^seat_minutes must be a whole number from 5 to 129600$/],
    [{ ...LINE, seat_minutes: 5 }, /^seat minutes need a machine limit, so give both$/],
    [{ ...LINE, max_machines: null, seat_minutes: 5 }, /^seat minutes need a machine limit, so give both$/],
    [{ ...LINE, used: 1.5 }, /^used must be a whole number, at least 0$/],
    [{ ...LINE, external_id: "" }, /^external_id must be 1 to 255 printable characters, and no API key$/],
    [{ ...LINE, external_id: 7 }, /^external_id must be 1 to 255 printable characters, and no API key$/],
    [{ ...LINE, external_id: KEY }, /^external_id must be 1 to 255/],
    [{ ...LINE, [KEY]: 1 }, /^it has a field that is not known$/],
    [{ ...LINE, Tier: "free" }, /^it has a field that is not known$/],
  ];

  for (const [line, sentence] of wrong) {
    test(`parseImportLine() refuses ${JSON.stringify(line).replace(KEY, "…").slice(0, 90)}`, () => {
      const refused = sentenceOf(parse(line));
      expect(refused).toMatch(sentence);
      expect(refused).not.toContain(KEY.slice(9));
    });
  }

  test("parseImportLine() refuses a line that is not JSON, without repeating it", () => {
    expect(sentenceOf(parseImportLine(KEY, BRAND))).toBe("it is not JSON");
  });
});

describe("importKeys()", () => {
  const server = useTestDatabase();
  const session = useForAll(async () => openSession(server.address, { statementTimeoutMs: 20_000 }));

  const importAll = (keys: ImportedKey[], onProgress: (done: number) => void = () => {}) =>
    importKeys(session, numbered(keys), {
      ...{ actor: ACTOR, now: NOW, onProgress },
      usageCte: (sql) => importedUsageCte(sql, monthOf(NOW.getTime())),
    });

  test("importKeys() makes a license, a key with its use, and an audit row for each line", async () => {
    const line = { email: "import@example.org", tier: "free", monthly_limit: 10, used: 12 };
    const key = good({ ...line, api_key: generateApiKey(BRAND, "test").apiKey });
    expect(await importAll([key])).toEqual({ imported: 1 });
    const found = await findKey(server.database, { hash: key.hash }, { now: NOW });
    expect(found).toMatchObject({
      email: line.email,
      tier: "free",
      mode: "test",
      monthlyLimit: 10,
      used: 12,
    });
    const [row] = await server.database.query(
      (sql) => sql`select action, after from audit order by id desc limit 1`,
    );
    expect(row).toMatchObject({ action: "key.import", after: { tier: "free", used: 12 } });
  });

  test("importKeys() stores the end of updates, features and values, as texts of CSV and as objects", async () => {
    const own = {
      own_features: {
        custom_models: { granted: true, until: "2027-06-30T23:59:59Z" },
        streaming: { granted: false },
      },
      own_entitlements: { channels: 64, region: "eu, us" },
    };
    const texts = {
      own_features: "custom_models until 2027-06-30, no streaming",
      own_entitlements: 'channels=64, region="eu, us"',
    };
    const keys = [own, texts].map((fields, index) =>
      good({
        ...{ email: `own${index}@example.org`, tier: "research", updates_until: "2027-12-31", ...fields },
        api_key: generateApiKey(BRAND, "live").apiKey,
      }),
    );
    expect(await importAll(keys)).toEqual({ imported: 2 });
    for (const { hash } of keys)
      expect(await findKey(server.database, { hash }, { now: NOW })).toMatchObject({
        ownFeatures: own.own_features,
        ownEntitlements: own.own_entitlements,
        updatesUntil: new Date("2027-12-31T23:59:59Z"),
      });
    const [row] = await server.database.query((sql) => sql`select after from audit order by id desc limit 1`);
    // A text can name a person, who can be erased, but not from the log.
    expect(row).toMatchObject({
      after: { ...own, own_entitlements: { channels: 64, region: "…" } },
    });
  });

  test("importKeys() stores places, and the audit log has them only if machines are counted", async () => {
    const key = (tag: string, places: object) =>
      good({
        ...places,
        email: `${tag}@example.org`,
        tier: "free",
        api_key: generateApiKey(BRAND, "live").apiKey,
      });
    const all = [
      key("plain", { max_machines: null }),
      key("locked", { max_machines: 5 }),
      key("floating", { max_machines: 30, seat_minutes: 15 }),
    ];
    expect(await importAll(all)).toEqual({ imported: 3 });
    const found = await Promise.all(all.map(({ hash }) => findKey(server.database, { hash }, { now: NOW })));
    expect(found).toMatchObject([
      { maxMachines: null, seatMinutes: null },
      { maxMachines: 5, seatMinutes: null },
      { maxMachines: 30, seatMinutes: 15 },
    ]);
    const rows = await server.database.query<{ after: object }>(
      (sql) => sql`select after from audit order by id desc limit 3`,
    );
    const [floating, locked, plain] = rows.map(({ after }) => after);
    expect(plain).not.toHaveProperty("max_machines");
    expect([locked, floating]).toEqual([
      { ...plain, max_machines: 5 },
      { ...plain, max_machines: 30, seat_minutes: 15 },
    ]);
  });

  test("importKeys() puts lines with one e-mail into one account, with the name in the first line", async () => {
    const names = ["First", "Second", "Third"];
    const keys = names.map((name) => made({ email: "shared@example.org", name }));
    await importAll(keys);
    const found = await Promise.all(keys.map(({ hash }) => findKey(server.database, { hash }, { now: NOW })));
    expect(new Set(found.map((one) => one?.userId)).size).toBe(1);
    expect(found.map((one) => one?.name)).toEqual(["First", "First", "First"]);
    await importAll([made({ email: "shared@example.org", name: "Fourth" })]);
    expect((await findKey(server.database, { hash: keys[0]?.hash ?? "" }, { now: NOW }))?.name).toBe("First");
  });

  test("importKeys() sets a year for a key without an expiry, and no expiry for `never`", async () => {
    const [year, never] = [made(), made({ expires_at: "never" })];
    await importAll([year, never]);
    const expiryOf = async ({ hash }: ImportedKey) =>
      (await findKey(server.database, { hash }, { now: NOW }))?.expiresAt;
    expect(await expiryOf(year)).toEqual(oneYearAfter(NOW));
    expect(await expiryOf(never)).toEqual(NEVER_EXPIRES);
  });

  test("importKeys() imports expired keys", async () => {
    const key = made({ expires_at: "2020-01-01" });
    await importAll([key]);
    expect((await findKey(server.database, { hash: key.hash }, { now: NOW }))?.state).toBe("expired");
  });

  test("importKeys() writes nothing if a key exists or is in the file twice, and names the lines", async () => {
    const known = made();
    await importAll([known]);
    const found = await findKey(server.database, { hash: known.hash }, { now: NOW });
    const before = await countRows(server.database);
    const others = Array.from({ length: 5_001 }, () => made());
    const knownAt = (line: number) => `line ${line} holds a key that is known already, as ${found?.id}`;
    const cases: [keys: ImportedKey[], why: string][] = [
      [[...others, known], `${knownAt(5_002)}; take it out`],
      [[others[0]!, ...others], "line 2 holds the same key as line 1; take one of them out"],
      [[others[1]!, ...others], "line 3 holds the same key as line 1; take one of them out"],
      [[...others, others[5_000]!], "line 5002 holds the same key as line 5001; take one of them out"],
      [[others[2]!, known, others[2]!, known], `${knownAt(2)}; take it out (the first of 3 such lines)`],
    ];
    for (const [keys, why] of cases) {
      expect(sentenceOf(await importAll(keys))).toBe(`Cannot import keys: ${why}`);
      expect(await countRows(server.database)).toEqual(before);
    }
  });

  test("importKeys() writes nothing if an external id exists or is in the file twice, and names the lines", async () => {
    const taken = await issue(server.database, { externalId: "order-1" });
    const license = toId("lic", taken.licenseUuid);
    const before = await countRows(server.database);
    const others = Array.from({ length: 51 }, (_, index) => made({ external_id: `import-${index}` }));
    const known = made({ external_id: "order-1" });
    const knownAt = (line: number) => `line ${line} has the external_id of the license ${license}`;
    const cases: [keys: ImportedKey[], why: string][] = [
      [[...others, known], `${knownAt(52)}; change one of them`],
      [
        [...others, made({ external_id: "import-50" })],
        "line 52 has the same external_id as line 51; change one of them",
      ],
      [[made(), known, made(), known], `${knownAt(2)}; change one of them (the first of 2 such lines)`],
    ];
    for (const [keys, why] of cases.map(([keys, why]) => [keys.map(unlike), why] as const)) {
      expect(sentenceOf(await importAll(keys))).toBe(`Cannot import keys: ${why}`);
      expect(await countRows(server.database)).toEqual(before);
    }
    expect(await importAll([...others, made(), made()])).toEqual({ imported: 53 });
    const { hash } = others[7]!;
    expect(await findKey(server.database, { hash }, { now: NOW })).toMatchObject({ externalId: "import-7" });
  });

  test("importKeys() reports its progress after every 5,000 keys, and at the end", async () => {
    const keys = Array.from({ length: 5_001 }, () => made());
    const progress: number[] = [];
    expect(await importAll(keys, (done) => progress.push(done))).toEqual({ imported: 5_001 });
    expect(progress).toEqual([5_000, 5_001]);
  });
});

function parse(line: unknown) {
  return parseImportLine(JSON.stringify(line), BRAND);
}

function good(line: object): ImportedKey {
  const key = parse(line);
  if (isRefusal(key)) throw new Error(key.sentence);
  return key;
}

/** Returns the keys with their line numbers, as in a file without empty lines. */
function numbered(keys: readonly ImportedKey[]): LineOfImport[] {
  return keys.map((key, index) => ({ key, line: index + 1 }));
}

function unlike(key: ImportedKey): ImportedKey {
  return { ...key, hash: hashApiKey(`unlike ${++count}`) };
}

let count = 0;

function made(fields: object = {}): ImportedKey {
  const sha256 = hashApiKey(`made ${++count}`);
  return good({ sha256, mode: "live", email: `made-${count}@example.org`, tier: "free", ...fields });
}
