/** The pages of Access: sessions, operators and tokens. `issue_token_test.ts` has the forms that show a token. */
import { beforeAll, describe, expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { listOperators, listTokens, SCOPES } from "../../src/operators/mod.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, textsOf } from "./texts_of.ts";

const MAX_BYTES = 150_000;
const LONG = "a-rather-long-name-of-a-service-of-a-rather-long-organization.12";

const admin = useAdmin();
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("admin", "olga"));
});

/** Sends a form of an admin. */
const change = (path: string, form: Record<string, string>) =>
  client.submit(`/access/${path}`, { cookie, form });

const lastAudit = async () => (await listAudit(admin.database, { limit: 1 }))[0];
const operator = async (wanted: string) =>
  (await listOperators(admin.database)).find(({ name }) => name === wanted);

describe("A viewer", () => {
  test("sees and ends only the own sessions, and sees nothing of tokens and other operators", async () => {
    await admin.token({ name: "secret-shop" });
    await client.logIn("editor", "emil");
    const elsewhere = await client.logIn("viewer", "vera");
    const here = await client.logIn("viewer", "vera");
    const open = async () => (await client.send("/access", { cookie: here.cookie })).text;
    const main = textsOf(await open(), "main").join();
    for (const hidden of ["emil", "olga", "shop", "Issue a token"]) expect(main).not.toContain(hidden);
    expect(textsOf(await open(), "h2")).toEqual(["Your sessions", "Roles"]);
    const rows = textsOf(await open(), "tbody tr");
    expect(rows).toHaveLength(2);
    expect(rows[0]).toStartWith("verathis session");
    const [own = "", other = ""] = attributesOf(await open(), "td form", "action");
    const end = (path: string) =>
      client.send(path.replace("/console", ""), { cookie: here.cookie, form: {} });
    await end(other);
    expect(await client.isLoggedIn(elsewhere.cookie)).toBe(false);
    expect(textsOf(await open(), "tbody tr")).toHaveLength(1);
    // Ending the own session is a logout.
    expect((await end(own)).location).toBe("/console/enter?done=logged-out");
    expect(await client.isLoggedIn(here.cookie)).toBe(false);
  });
});

describe("An admin", () => {
  test("ends the session of another operator, and is told so", async () => {
    const other = await client.logIn("editor", "ending");
    const { text: page } = await client.send("/access", { cookie });
    const at = attributesOf(page, "td button", "aria-label").indexOf("End a session of ending");
    const path = attributesOf(page, "td form", "action")[at] ?? "";

    const { text } = await change(path.replace("/console/access/", ""), {});

    expect(textsOf(text, ".notice")).toEqual(["The session has ended."]);
    expect(await client.isLoggedIn(other.cookie)).toBe(false);
    expect(await lastAudit()).toMatchObject({
      action: "session.end",
      actor: "operator:olga",
      door: "console",
    });
  });

  test("says what each role may do, also to a viewer", async () => {
    const { cookie: viewer } = await client.logIn("viewer", "reader");
    for (const as of [cookie, viewer]) {
      const facts = textsOf((await client.send("/access", { cookie: as })).text, ".facts div");
      expect(facts.map((text) => text.split(" ")[0])).toEqual(["viewer", "editor", "admin"]);
      expect(facts[2]).toContain("erases accounts");
    }
  });

  test("removes an operator after the name was typed, and reads which tokens are left", async () => {
    const leaver = await client.logIn("editor", "leaver");
    await admin.token({ name: "left-over" });
    await admin.database.query(
      (sql) => sql`update tokens set created_by = 'command:leaver' where name = 'left-over'`,
    );
    const { text: page } = await client.send("/access/operators/leaver", { cookie });
    expect(textsOf(page, "#remove")[0]).toContain("still work until you revoke them: left-over");

    const wrong = await change("operators/leaver/remove", { repeat: "leave" });
    expect([wrong.status, textsOf(wrong.text, "#remove-repeat-error")]).toEqual([400, ["It must be leaver"]]);
    expect(await client.isLoggedIn(leaver.cookie)).toBe(true);

    const { text } = await change("operators/leaver/remove", {
      repeat: "leaver",
      reason: "has left <b>us",
    });

    expect(textsOf(text, ".notice")[0]).toContain("The operator is removed");
    expect(textsOf(text, "#title")[0]).toContain("removed");
    expect(attributesOf(text, "main a", "href")).toContain("/console/access/tokens/left-over");
    expect(await client.isLoggedIn(leaver.cookie)).toBe(false);
    expect((await operator("leaver"))?.removedAt).not.toBeNull();
    expect(await lastAudit()).toMatchObject({ action: "operator.remove", reason: "has left <b>us" });
  });

  test("changes a role, but keeps the last admin", async () => {
    await client.newCode("riser", "viewer");
    const changed = await change("operators/riser/role", { role: "editor", reason: "is on call" });
    expect(textsOf(changed.text, ".notice")[0]).toContain("The operator has another role.");
    expect(await operator("riser")).toMatchObject({ role: "editor" });
    expect(await lastAudit()).toMatchObject({ action: "operator.role", reason: "is on call" });

    const kept = await change("operators/olga/role", { role: "viewer" });
    expect(kept.status).toBe(409);
    expect(textsOf(kept.text, "[role=alert]")[0]).toContain("it is the last admin");
    expect(await operator("olga")).toMatchObject({ role: "admin" });
  });

  test("who gives up the role is led to a page that the new role may open", async () => {
    const { name, cookie: own } = await client.logIn("admin");
    const path = `/access/operators/${name}`;
    const { location } = await client.send(`${path}/role`, { cookie: own, form: { role: "viewer" } });
    expect(location).toMatch(/^\/console\/access\?done=req_[0-9a-f]+$/);
    expect((await client.send(path, { cookie: own })).status).toBe(403);
  });

  test("reads what a token may do and who made it, and revokes it after its name was typed", async () => {
    await admin.token({
      name: "shop",
      scopes: ["keys:read"],
      restriction: { tiers: ["free"], mode: "test" },
      sources: ["10.0.0.0/8"],
    });
    const { text: page } = await client.send("/access/tokens/shop", { cookie });
    expect(textsOf(page, "h1")).toEqual(["Token shop"]);
    expect(textsOf(page, ".facts")[0]).toContain(
      "Scopes keys:read Tiers free Mode test From 10.0.0.0/8 Created by command:tester",
    );

    const { text } = await change("tokens/shop/revoke", { repeat: "shop" });

    expect(textsOf(text, ".notice")[0]).toContain("The token is revoked");
    expect(text).not.toContain('id="revoke"');
    expect(await lastAudit()).toMatchObject({ action: "token.revoke", actor: "operator:olga" });
    const tokens = await listTokens(admin.database, { now: admin.clock.now() });
    expect(tokens.find(({ name }) => name === "shop")?.state).toBe("revoked");
  });

  test("gets a page for names that nobody has, and for any text", async () => {
    for (const name of ["nobody", "Olga", "%3Cimg%3E", "..", "a".repeat(200), "%00", "%E0%A4%A"]) {
      for (const path of [`operators/${name}`, `tokens/${name}`])
        expect([path, (await client.send(`/access/${path}`, { cookie })).status]).toEqual([path, 404]);
      for (const path of [`operators/${name}/role`, `operators/${name}/remove`, `tokens/${name}/revoke`]) {
        const form = { role: "viewer", repeat: name, reason: "\u0000" };
        expect([path, (await change(path, form)).status]).toEqual([path, 404]);
      }
    }
  });
});

describe("Access with hundreds of operators and tokens", () => {
  const many = useAdmin();

  test("is smaller than 150 kB", async () => {
    const now = many.clock.now();
    await many.database.query(
      (sql) => sql`
        with people as (
          insert into operators (name, role, created_at, last_seen_at)
          select left(${LONG}, 60) || n, 'viewer', ${now}::timestamptz, ${now}::timestamptz from generate_series(1, 300) n
          returning name
        ),
        sessions as (
          insert into operator_sessions (id, hash, operator, created_at, last_seen_at)
          select gen_random_uuid(), sha256(name::bytea), name, ${now}::timestamptz, ${now}::timestamptz from people
        )
        insert into tokens (id, name, hash, scopes, tiers, mode, sources, created_by, created_at, renewed_at, last_used_at)
        select gen_random_uuid(), left(${LONG}, 60) || n, sha256(n::text::bytea),
               ${`{${SCOPES.slice(0, 6)}}`}::text::text[], '{free,research,commercial}', 'live',
               array_fill('2001:db8:ffff:ffff:ffff:ffff:ffff:0/112'::text, '{32}'), 'command:' || ${LONG}::text,
               ${now}::timestamptz, ${now}::timestamptz, ${now}::timestamptz
          from generate_series(1, 300) n`,
    );
    const client = createConsoleClient(many);
    const { cookie } = await client.logIn("admin");
    const { text } = await client.send("/access", { cookie });
    expect(Buffer.byteLength(text)).toBeLessThan(MAX_BYTES);
    expect(text).toContain("more are not shown");
  });
});
