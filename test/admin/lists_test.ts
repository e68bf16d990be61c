/** The lists of the API: pages without gaps and repetitions, filters with the results of the commands, and bounds. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { openSession } from "../../src/database/mod.ts";
import { parseId } from "../../src/ids.ts";
import { type IssuedKey, revokeKey, rotateKey, suspendKey } from "../../src/keys/mod.ts";
import { updateAccount } from "../../src/licensing/mod.ts";
import { addModel, parseNewModel } from "../../src/models/mod.ts";
import { isRefusal } from "../../src/refusal.ts";
import { startAdmin, type TestAdmin } from "../support/admin.ts";
import { ACTOR, BRAND } from "../support/issue.ts";
import { newModel } from "../support/new_model.ts";
import { type CommandsOn, commandsOn } from "./commands_on.ts";
import { stopWaiting } from "./stop_waiting.ts";

setDefaultTimeout(30_000);

let admin: TestAdmin;
beforeEach(async () => {
  admin = await startAdmin();
});
afterEach(() => admin.close());

const DAY_MS = 86_400_000;
const uuidOf = ({ id }: IssuedKey) => parseId("key", id) ?? "";
const by = () => ({ actor: ACTOR, now: admin.clock.now() });

/** Reads a list to its end, and calls `between` after each page. */
async function readAll(path: string, between: () => unknown = () => {}): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  const separator = path.includes("?") ? "&" : "?";
  for (let next: string | null = ""; next !== null; await between()) {
    const { status, body } = await admin.call("GET", `${path}${next && `${separator}after=${next}`}`);
    expect({ status, body }).toMatchObject({ status: 200 });
    rows.push(...body.data);
    ({ next } = body);
  }
  return rows;
}

async function issueMany(count: number): Promise<IssuedKey[]> {
  const keys: IssuedKey[] = [];
  for (let at = 0; at < count; at++) keys.push(await admin.issue());
  return keys;
}

async function use(key: IssuedKey, used: number): Promise<void> {
  await admin.database.query(
    (sql) => sql`
      insert into usage (license_id, month, used)
      values (${key.licenseUuid}::uuid, date_trunc('month', ${admin.clock.now()}::timestamptz at time zone 'UTC'), ${used}::bigint)`,
  );
}

async function add(name: string, version = "1.0.0"): Promise<void> {
  const model = parseNewModel(newModel({ name, version }), BRAND);
  if (isRefusal(model)) throw new Error(model.sentence);
  expect(isRefusal(await addModel(admin.database, model, by()))).toBe(false);
}

describe("every list", () => {
  test("GET /keys gives each key once, while keys are issued, revoked and suspended between the pages", async () => {
    const keys = await issueMany(7);
    let round = 0;
    const listed = await readAll("/keys?limit=2", async () => {
      const [first, second] = [keys[round], keys[6 - round]];
      round++;
      if (round > 3 || !first || !second) return;
      await admin.issue();
      await revokeKey(admin.database, { uuid: uuidOf(first) }, by());
      await suspendKey(admin.database, uuidOf(second), by());
    });
    const ids = listed.map(({ id }) => id);
    expect(ids.slice(0, 7)).toEqual(keys.map(({ id }) => id));
    expect(new Set(ids).size).toBe(10);
    expect(ids).toHaveLength(10);
  });

  test("GET /accounts gives each account once, while accounts are added and renamed between the pages", async () => {
    const keys = await issueMany(5);
    let round = 0;
    const listed = await readAll("/accounts?limit=2", async () => {
      if (round++ > 2) return;
      const { id } = await admin.issue({ email: `a-${round}@example.org` });
      expect(id).toBeString();
      for (const { userId } of keys)
        await updateAccount(admin.database, {
          ...by(),
          uuid: parseId("usr", userId) ?? "",
          name: `n${round}`,
        });
    });
    expect(listed.map(({ id }) => id).slice(0, 5)).toEqual(keys.map(({ userId }) => userId));
    expect(listed).toHaveLength(8);
  });

  test("GET /usage gives each license once, while others begin to count and counts grow", async () => {
    const keys = await issueMany(7);
    for (const key of keys.slice(0, 5)) await use(key, 1);
    let round = 0;
    const listed = await readAll("/usage?limit=2", async () => {
      if (round++ === 0) for (const key of keys.slice(5)) await use(key, 5);
      await admin.database.query((sql) => sql`update usage set used = used + 1`);
    });
    expect(listed.map(({ email }) => email)).toEqual((await readAll("/accounts")).map(({ email }) => email));
  });

  test("GET /models gives each model once, while versions are added between the pages", async () => {
    const names = ["e", "d", "c", "b", "a"];
    for (const name of names) await add(name);
    let round = 0;
    const listed = await readAll("/models?limit=2", () => add(names[round++] ?? `f${round}`, "2.0.0"));
    expect(listed.map(({ name, version }) => `${name} ${version}`)).toEqual([
      ...["e 1.0.0", "d 1.0.0", "c 1.0.0", "b 1.0.0", "a 1.0.0"],
    ]);
  });

  test("has 50 rows without a limit, and no `next` after a last page that is full", async () => {
    await issueMany(51);
    const first = await admin.call("GET", "/keys");
    expect(first.body.data).toHaveLength(50);
    const rest = await admin.call("GET", `/keys?limit=1&after=${first.body.next}`);
    expect(rest.body).toEqual({ data: [expect.anything()], next: null });
  });

  test("refuses other limits, damaged cursors, and cursors of other lists or filters", async () => {
    await issueMany(3);
    await add("a");
    const { next } = (await admin.call("GET", "/keys?limit=1&mode=live")).body;
    const damaged = `${next.slice(0, 30)}${next[30] === "A" ? "B" : "A"}${next.slice(31)}`;
    for (const [path, field] of [
      ...["0", "101", "-1", "1e1", "2.5", "", "x", "9".repeat(30)].map((limit) => [
        `/keys?limit=${limit}`,
        "limit",
      ]),
      ["/keys?mode=test&after=", "after"],
      [`/keys?after=${next}`, "after"],
      [`/keys?mode=live&tier=free&after=${next}`, "after"],
      [`/keys?mode=live&after=${damaged}`, "after"],
      [`/keys?mode=live&after=${next.repeat(10)}`, "after"],
      ...["/accounts", "/models", "/usage", "/audit"].map((list) => [`${list}?after=${next}`, "after"]),
    ] as [string, string][]) {
      const { status, body } = await admin.call("GET", path);
      expect({ path, status, code: body.code, field: body.details?.[0]?.field }).toEqual({
        path,
        status: 400,
        code: "INVALID_REQUEST",
        field,
      });
    }
    expect((await admin.call("GET", `/keys?limit=2&mode=live&after=${next}`)).status).toBe(200);
  });

  test("keeps the time of its first page for the filters that refer to it", async () => {
    const expiresAt = new Date(admin.clock.now().getTime() + DAY_MS / 2);
    for (let at = 0; at < 3; at++) await admin.issue({ expiresAt });
    const listed = await readAll("/keys?expiring_within=1&limit=1", () => admin.clock.advance(DAY_MS));
    expect(listed.map(({ state }) => state)).toEqual(["active", "active", "active"]);
    expect(await readAll("/keys?expiring_within=1")).toEqual([]);
  });

  test("says what to do when the server stopped a statement, and answers the next request", async () => {
    await admin.issue();
    const token = await admin.token();
    const session = openSession(admin.testDatabase.address, { statementTimeoutMs: 30_000 });
    try {
      await session.connect();
      for (const [method, path, sentence] of [
        ["GET", "/keys", "narrow the filter or the search"],
        ["GET", "/accounts", "narrow the filter or the search"],
        ["POST", `/accounts/usr_${"0".repeat(32)}/erase`, "nothing was changed; try again"],
      ] as const) {
        await session.sql`begin`;
        await session.sql`lock table accounts, licenses in access exclusive mode`;
        const answer = admin.call(method, path, { token });
        await stopWaiting(session);
        const { status, body, headers } = await answer;
        expect({ path, status, code: body.code }).toEqual({ path, status: 503, code: "SERVICE_UNAVAILABLE" });
        expect(body.error).toContain(sentence);
        expect(body.error).toContain("more than 2 seconds");
        expect(headers.get("retry-after")).toBe("1");
        await session.sql`rollback`;
        expect((await admin.call("GET", "/keys", { token })).body.data).toHaveLength(1);
      }
    } finally {
      await session.close();
    }
  });
});

describe("the results of the commands", () => {
  let commands: CommandsOn;
  beforeEach(async () => {
    commands = await commandsOn(admin.testDatabase, admin.clock);
  });
  afterEach(() => commands.close());

  test("GET /keys and `keys list` find the same keys by each filter and several", async () => {
    const { clock } = admin;
    const soon = new Date(clock.now().getTime() + 3 * DAY_MS);
    const first = await admin.issue({ email: "olga@example.org", name: "Olga Petrova", tier: "free" });
    await admin.issue({ email: "olga@example.org", name: "Olga Petrova", tier: "commercial", mode: "test" });
    await admin.issue({ email: "ada@example.org", organization: "Petrova Labs", expiresAt: soon });
    const suspended = await admin.issue({ email: "eve@example.org" });
    await suspendKey(admin.database, uuidOf(suspended), by());
    const rotated = await admin.issue({ email: "rot@example.org", externalId: "order-17" });
    await rotateKey(
      admin.database,
      { uuid: uuidOf(rotated), mode: "live", overlapMs: DAY_MS },
      { brand: BRAND, ...by() },
    );
    const revoked = await admin.issue({ email: "gone@example.org" });
    await revokeKey(admin.database, { uuid: uuidOf(revoked) }, by());
    await use(first, 12);
    const lastFour = first.apiKey.slice(-4);
    const filters: Record<string, string>[] = [
      {},
      { search: "petrov" },
      { search: lastFour },
      { search: "nobody" },
      { account: "OLGA@example.org" },
      { account: first.userId },
      { tier: "commercial" },
      { tier: "enterprise" },
      ...["active", "suspended", "revoked", "expired"].map((state) => ({ state })),
      { mode: "test" },
      { "expiring-within": "4" },
      { "expiring-within": "0" },
      { search: "petrova", tier: "free", mode: "live", state: "active" },
    ];
    for (const filter of filters) {
      const query = new URLSearchParams(
        Object.entries(filter).map(([name, value]): [string, string] => [name.replace("-", "_"), value]),
      );
      const args = Object.entries(filter).flatMap(([name, value]) => [`--${name}`, value]);
      const listed = await readAll(`/keys?${query}`);
      expect({ filter, listed }).toEqual({ filter, listed: await commands.json(["keys", "list", ...args]) });
    }
    expect((await readAll("/keys?external_id=order-17")).map(({ email }) => email)).toEqual([
      ...["rot@example.org", "rot@example.org"],
    ]);
    expect(await readAll("/keys?external_id=order")).toEqual([]);
    expect((await readAll("/keys?search=petrova")).length).toBe(3);
    expect((await readAll("/keys?state=revoked")).length).toBe(1);
  });

  test("GET /accounts and `accounts list` find the same accounts", async () => {
    const key = await admin.issue({ email: "olga@example.org", name: "Olga" });
    await admin.issue({ email: "olga@example.org", name: "Olga" });
    await admin.issue({ email: "ada@example.org", organization: "Olga & Sons" });
    for (const search of [undefined, "olga", key.apiKey.slice(-4), "x"]) {
      const listed = await readAll(`/accounts${search ? `?search=${search}` : ""}`);
      const args = search ? ["--search", search] : [];
      expect(listed).toEqual(await commands.json(["accounts", "list", ...args]));
    }
    expect((await admin.call("GET", `/accounts/${key.userId}`)).body).toEqual(
      (await commands.json(["accounts", "list", "--search", "olga@example.org"]))[0],
    );
  });

  test("GET /models and `models list` show the same models", async () => {
    for (const name of ["a", "b", "c"]) await add(name);
    await add("a", "2.0.0");
    const listed = await readAll("/models?limit=2");
    expect(listed).toEqual(await commands.json(["models", "list"]));
    expect(listed.map(({ version }) => version)).toEqual(["2.0.0", "1.0.0", "1.0.0"]);
  });
});

describe("filters that are refused", () => {
  test("GET /keys refuses values that no key can have, by name", async () => {
    for (const [query, field] of [
      ["tier=gold", "tier"],
      ["state=lost", "state"],
      ["mode=dev", "mode"],
      ["expiring_within=-1", "expiring_within"],
      ["expiring_within=36501", "expiring_within"],
      [`external_id=${"x".repeat(256)}`, "external_id"],
      ["external_id=", "external_id"],
      ["account=x", "account"],
      ["search=", "search"],
      [`search=${"x".repeat(201)}`, "search"],
      ["search=a%00b", "search"],
      ["search=%ff", "search"],
      ["unused_for=3", "unused_for"],
    ]) {
      const { status, body } = await admin.call("GET", `/keys?${query}`);
      expect({ query, status, code: body.code, field: body.details?.[0]?.field }).toEqual({
        query,
        status: 400,
        code: "INVALID_REQUEST",
        field,
      });
    }
  });

  test("GET /keys refuses an account that does not exist, and a search without words", async () => {
    const unknown = await admin.call("GET", "/keys?account=nobody@example.org");
    expect({ status: unknown.status, body: unknown.body }).toEqual({
      status: 404,
      body: {
        code: "NOT_FOUND",
        error: "Cannot list keys: no account has the id or e-mail nobody@example.org",
      },
    });
    const { status, body } = await admin.call("GET", "/accounts?search=%26%26");
    expect({ status, error: body.error }).toEqual({
      status: 400,
      error: "Cannot search: the text has no letter and no digit",
    });
  });

  test("a search that more than 1,000 accounts match is refused, and no list is cut silently", async () => {
    await admin.database.query(
      (sql) => sql`
        insert into accounts (id, email, name, organization, created_at)
        select gen_random_uuid(), 'same-' || n || '@example.org', 'Same', '', now() from generate_series(1, 1001) n`,
    );
    for (const list of ["keys", "accounts"]) {
      const { status, body } = await admin.call("GET", `/${list}?search=same`);
      expect({ status, field: body.details[0].field, error: body.error }).toEqual({
        status: 400,
        field: "search",
        error: "Cannot search: more than 1,000 accounts match: search for more or longer words",
      });
    }
    expect((await admin.call("GET", "/accounts?search=same-1001")).body.data).toHaveLength(1);
  });
});
