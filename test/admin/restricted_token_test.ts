/** Restricted tokens: the accounts that they may join, the scopes that they can have, and the keys that they see. */
import { describe, expect, test } from "bun:test";
import { ROUTES } from "../../src/admin/things.ts";
import { newUuid, toId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import type { Restriction } from "../../src/licensing/mod.ts";
import { issueToken, renewToken, SCOPES, SCOPES_OF_RESTRICTED, type Scope } from "../../src/operators/mod.ts";
import { ACTOR, BRAND, countRows } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import { makeSample } from "./sample_requests.ts";

const admin = useAdmin();

const FREE_LIVE: Restriction = { tiers: ["free"], mode: "live" };
const JOINING: readonly Scope[] = ["keys:issue", "accounts:join"];

let made = 0;
const newEmail = () => `buyer-${++made}@example.org`;
const newOrder = () => `order-${String(++made).padStart(12, "0")}`;
const shop = (scopes: readonly Scope[] = ["keys:issue"], restriction = FREE_LIVE) =>
  admin.token({ scopes, restriction });

function order(token: string, body: object, number = newOrder()) {
  const headers = { "Idempotency-Key": number };
  return admin.call("POST", "/keys", { token, body: { tier: "free", ...body }, headers });
}

const REFUSED = {
  error:
    "Cannot issue key: the account exists already, and a restricted token adds keys to such accounts only with the " +
    "scope accounts:join",
  code: "CONFLICT",
};

describe("POST /admin/v1/keys with a restricted token", () => {
  const known: [what: string, account: object, body: object][] = [
    ["an account", {}, {}],
    ["an account of its own tier and mode", { tier: "free" }, {}],
    ["an account with the name and organization of the request", { name: "Ada" }, { name: "Ada" }],
    ["an account with another name", { name: "Ada" }, { name: "Eve" }],
  ];
  test.each(known)(
    "refuses the e-mail of %s without accounts:join, and answers like an unrestricted token with it",
    async (_, account, body) => {
      const email = newEmail();
      const { userId } = await admin.issue({ email, ...account });
      const restrictions: Restriction[] = [FREE_LIVE, { tiers: ["free"] }, { mode: "live" }];
      const tokens = await Promise.all(restrictions.map((restriction) => shop(undefined, restriction)));
      const before = await countRows(admin.database);
      for (const token of tokens) {
        const refused = await order(token, { email, ...body });
        expect([refused.status, refused.body]).toEqual([409, REFUSED]);
      }
      expect(await countRows(admin.database)).toEqual(before);
      const isSame = JSON.stringify(body) !== '{"name":"Eve"}';
      const joined = await order(await shop(JOINING), { email, ...body });
      expect([joined.status, joined.body.user_id]).toEqual(isSame ? [201, userId] : [409, undefined]);
      const unrestricted = await order(await shop(["keys:issue"], {}), { email, ...body });
      expect(unrestricted.status).toBe(joined.status);
    },
  );

  test("refuses the e-mail of an account that the same token made, and repeats an order's answer", async () => {
    const [token, email, number] = [await shop(), newEmail(), newOrder()];
    const first = await order(token, { email }, number);
    expect(first.status).toBe(201);
    expect((await order(token, { email }, number)).body).toEqual(first.body);
    expect((await order(token, { email })).body).toEqual(REFUSED);
    expect((await order(token, { email }, number)).body).toEqual(first.body);
  });

  test("refuses a used external id before a known e-mail, and names its license only if visible", async () => {
    const [email, external_id] = [newEmail(), newOrder()];
    const shown = await shop(["keys:issue", "keys:read"]);
    const first = await order(shown, { email, external_id });
    const taken = { error: "Cannot issue key: another license has this external id", code: "ALREADY_EXISTS" };
    const again = await order(shown, { email, external_id });
    expect([again.status, again.body]).toEqual([409, { ...taken, id: first.body.license_id }]);
    expect((await order(await shop(), { email, external_id })).body).toEqual(taken);
    const other = await shop(["keys:issue", "keys:read"], { mode: "test" });
    expect((await order(other, { email, external_id, mode: "test" })).body).toEqual(taken);
    expect((await order(other, { email: newEmail(), external_id, mode: "test" })).body).toEqual(taken);
  });

  test("accepts one of three simultaneous orders for a new e-mail, and gives equal orders one answer", async () => {
    const token = await shop();
    for (let round = 0; round < 20; round++) {
      const email = newEmail();
      const answers = await Promise.all([1, 2, 3].map(() => order(token, { email })));
      expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409]);
      const [again, number] = [newEmail(), newOrder()];
      const same = await Promise.all([1, 2, 3].map(() => order(token, { email: again }, number)));
      expect(new Set(same.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
    }
  });
});

describe("PATCH /admin/v1/licenses/{id} with a restricted token", () => {
  test("refuses a used external id, and names its license only if the token may see it", async () => {
    const token = await shop(["keys:manage", "keys:read"]);
    const own = await admin.issue({ tier: "free" });
    const [seen, hidden] = [newOrder(), newOrder()];
    const { licenseUuid } = await admin.issue({ tier: "free", externalId: seen });
    await admin.issue({ tier: "research", externalId: hidden });
    const path = `/licenses/${toId("lic", own.licenseUuid)}`;
    const taken = {
      error: "Cannot change license: another license has this external id",
      code: "ALREADY_EXISTS",
    };
    const change = async (external_id: string) =>
      (await admin.call("PATCH", path, { token, body: { external_id } })).body;
    expect(await change(seen)).toEqual({ ...taken, id: toId("lic", licenseUuid) });
    expect(await change(hidden)).toEqual(taken);
  });
});

describe("the changes of a restricted token", () => {
  const changes = ROUTES.filter(
    ({ method, path, scope }) =>
      method !== "GET" && path.includes(":id") && SCOPES_OF_RESTRICTED.some((held) => held === scope),
  );

  test("are those of keys, of licenses and of their expiry", () => {
    const ofKeys = ["bundle", "license", "replace", "resume", "revoke", "rotate", "suspend"].map(
      (change) => `/keys/:id/${change}`,
    );
    expect(changes.map(({ path }) => path).sort()).toEqual([
      "/accounts/:id/renew",
      ...ofKeys,
      "/licenses/:id",
      "/licenses/:id/move",
    ]);
  });

  test.each(changes)(
    "$method $path refuses a key of another tier or mode, and changes nothing",
    async (route) => {
      for (const restriction of [{ tiers: ["free"] }, { mode: "test" }] as const) {
        const { path, ...sample } = await makeSample(admin, route);
        const token = await admin.token({ restriction });
        const before = await countRows(admin.database);
        const { status, body } = await admin.call(route.method, path, { ...sample, token });
        expect({ status, code: body.code }).toEqual({ status: 403, code: "NOT_ALLOWED" });
        expect(await countRows(admin.database)).toEqual(before);
      }
    },
  );

  test("are not more of a new key than its tier and mode", async () => {
    const token = await shop();
    const before = await countRows(admin.database);
    const wider = [
      { tier: "enterprise" },
      { mode: "test" },
      { monthly_limit: 10_001 },
      { expires_at: "never" },
    ];
    for (const fields of wider) {
      const { status, body } = await order(token, { email: newEmail(), ...fields });
      expect({ fields, status, code: body.code }).toEqual({ fields, status: 403, code: "NOT_ALLOWED" });
    }
    expect(await countRows(admin.database)).toEqual(before);
  });
});

describe("the scopes of a restricted token", () => {
  const by = () => ({ brand: BRAND, actor: ACTOR, now: admin.clock.now() });
  const rest = SCOPES.filter((scope) => !scope.startsWith("keys:") && scope !== "accounts:join");

  test.each(rest)("issueToken() refuses %s, renewToken() refuses an old token with it", async (scope) => {
    const why =
      "a token that is restricted to tiers or to a mode can have only keys:read, keys:issue, keys:manage, keys:revoke, " +
      "accounts:join";
    const name = `older-${scope.replace(":", "-")}`;
    for (const restriction of [{ tiers: ["free"] }, { mode: "test" }] as const) {
      const request = { name, scopes: ["keys:read", scope], restriction } as const;
      expect(await issueToken(admin.database, request, by())).toMatchObject({
        code: "INVALID_REQUEST",
        sentence: `Cannot issue token: ${why}`,
      });
    }
    const token = await admin.token({ name, restriction: { mode: "test" } });
    await admin.database.query(
      (sql) => sql`update tokens set scopes = array['keys:read', ${scope}] where name = ${name}`,
    );
    const { body } = await admin.call("GET", "/whoami", { token });
    expect(body.scopes).toEqual(["keys:read", scope]);
    expect(await renewToken(admin.database, { name }, by())).toMatchObject({
      ...{
        code: "CONFLICT",
        sentence: `Cannot renew token ${name}: ${why}; issue a token with another name`,
      },
    });
    expect((await admin.call("GET", "/whoami", { token })).status).toBe(200);
  });

  test("issueToken() and renewToken() allow the scopes of keys and accounts:join", async () => {
    await admin.token({ name: "narrow", restriction: FREE_LIVE });
    expect(await renewToken(admin.database, { name: "narrow" }, by())).toHaveProperty("token");
  });
});

describe("the keys that a restricted token sees", () => {
  const READ: readonly Scope[] = ["keys:read"];
  const outside = [
    ["another tier", { tier: "research", mode: "live" }],
    ["another mode", { tier: "free", mode: "test" }],
  ] as const;
  const paths = (key: IssuedKey): [method: string, path: string, body?: object][] => [
    ["GET", `/keys/${key.id}`],
    ["GET", `/keys/${key.id}/why`],
    ["GET", `/keys/${key.id}/usage`],
    ["GET", `/licenses/${toId("lic", key.licenseUuid)}`],
    ["POST", "/keys/find", { api_key: key.apiKey }],
  ];

  test.each(outside)("are not those of %s: each route answers as for an unknown key", async (_, other) => {
    const [inside, hidden] = [await admin.issue({ tier: "free" }), await admin.issue(other)];
    const token = await shop(READ);
    const unknown = { ...hidden, id: toId("key", newUuid()), licenseUuid: newUuid() };
    unknown.apiKey = `svc_live_${"0123456789ab".repeat(4)}`;
    const isHidden = paths(unknown);
    for (const [n, [method, path, body]] of paths(hidden).entries()) {
      const [, unknownPath = "", unknownBody] = isHidden[n] ?? [];
      const answer = await admin.call(method, path, { token, body });
      const none = await admin.call(method, unknownPath, { token, body: unknownBody });
      const error = answer.body.error.replaceAll(/[a-z]+_[0-9a-f]{32}/g, "ID");
      expect({ path, status: answer.status, ...answer.body, error }).toEqual({
        path,
        status: 404,
        ...none.body,
        error: none.body.error.replaceAll(/[a-z]+_[0-9a-f]{32}/g, "ID"),
      });
      expect((await admin.call(method, path, { body })).status).toBe(200);
    }
    for (const [method, path, body] of paths(inside)) {
      expect((await admin.call(method, path, { token, body })).status).toBe(200);
    }
  });

  test("are the only keys on lists, with every condition", async () => {
    const email = newEmail();
    let [userId, lastFour] = ["", ""];
    for (const tier of ["free", "research", "enterprise"] as const) {
      for (const mode of ["live", "test"] as const) {
        const key = await admin.issue({ email, tier, mode, externalId: `${tier}-${mode}` });
        [userId, lastFour] = [key.userId, key.apiKey.slice(-4)];
      }
    }
    const stranger = await admin.issue({ tier: "enterprise" });
    const restrictions: Restriction[] = [
      ...[FREE_LIVE, { mode: "test" as const }],
      { tiers: ["free", "enterprise"] },
      { tiers: ["free"], mode: "test" },
    ];
    const conditions = [
      ...[`account=${userId}`, `account=${email}`, `search=${email}`, `account=${email}&mode=live`],
      ...[
        `account=${email}&tier=research`,
        `account=${email}&tier=free&mode=test`,
        "external_id=research-test",
      ],
      ...[`search=${lastFour}`, "", "tier=enterprise", "mode=live", "state=active", "limit=2"],
    ];
    for (const restriction of restrictions) {
      const token = await shop(READ, restriction);
      for (const condition of conditions) {
        const ids = async (by: { token?: string }) => {
          const all: { tier: string; mode: string }[] = [];
          for (let next: string | null = ""; next !== null; ) {
            const after: string = next === "" ? "" : `&after=${next}`;
            const { status, body } = await admin.call("GET", `/keys?${condition}${after}`, by);
            expect({ condition, status }).toEqual({ condition, status: 200 });
            all.push(...body.data);
            next = body.next;
          }
          return all;
        };
        const expected = (await ids({})).filter(
          ({ tier, mode }) =>
            (restriction.tiers ?? [tier]).some((each) => each === tier) &&
            mode === (restriction.mode ?? mode),
        );
        expect({ condition, keys: await ids({ token }) }).toEqual({ condition, keys: expected });
      }
      // The answer must not tell whether there is a customer whose keys the token may not see.
      for (const who of [stranger.userId, toId("usr", newUuid()), newEmail()]) {
        const { status, body } = await admin.call("GET", `/keys?account=${who}&tier=research`, { token });
        expect([status, body]).toEqual([200, { data: [], next: null }]);
      }
    }
  });
});
