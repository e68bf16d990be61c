/** Who may use the console and the API, in a real browser. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { listAudit } from "../../src/audit/mod.ts";
import { listOperators, listSessions, listTokens, SCOPES } from "../../src/operators/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { useForAll } from "../support/use.ts";
import { expectAccessible } from "./support/accessibility.ts";
import { takeScreenshots } from "./support/browser.ts";
import { startConsole, tabTo } from "./support/console.ts";

const LONG = "a-rather-long-name-of-a-service-of-a-rather-long-organization.12";
const REFUSED = [/status of 400/];

const admin = useForAll(startConsole);
const client = createConsoleClient(admin);
beforeAll(async () => {
  await client.newCode("olga");
});

const tableOf = (page: Page, heading: string) => page.locator(`h2:has-text("${heading}") + table`);
const lastAudit = async () => (await listAudit(admin.database, { limit: 1 }))[0];
const operator = async (wanted: string) =>
  (await listOperators(admin.database)).find(({ name }) => name === wanted);
const statusAt = async (path: string, cookie: string, form?: Record<string, string>) =>
  (await client.send(path, { cookie, ...(form && { form }) })).status;

describe("Access of a viewer", () => {
  test("shows and ends only the viewer's own sessions, and nothing of tokens, without script", async () => {
    await admin.token({ name: "secret-shop" });
    const other = await client.logIn("editor", "emil");
    const elsewhere = await client.logIn("viewer", "vera");
    const [foreign] = (await listSessions(admin.database, { now: admin.clock.now() })).filter(
      ({ operator }) => operator === "emil",
    );
    expect(
      (await client.send(`/access/sessions/${foreign?.id}/end`, { cookie: elsewhere.cookie, form: {} }))
        .status,
    ).toBe(404);
    expect(await client.isLoggedIn(other.cookie)).toBe(true);
    await admin.visitAs("viewer", { path: "/access", script: false }, async (page) => {
      const text = (await page.locator("main").textContent()) ?? "";
      for (const hidden of ["emil", "olga", "shop", "oken"]) expect(text).not.toContain(hidden);
      const rows = tableOf(page, "Your sessions").locator("tbody tr");
      expect(await rows.count()).toBe(2);
      expect(await rows.first().textContent()).toContain("verathis session");
      await page.getByRole("button", { name: "End a session of vera" }).click();
      await page.getByText("The session has ended.").waitFor();
      expect(await rows.count()).toBe(1);
      expect(await client.isLoggedIn(elsewhere.cookie)).toBe(false);
      await page.getByRole("button", { name: "Log out here" }).click();
      await page.getByText("You are logged out.").waitFor();
    });
  });

  test("refuses the pages and changes of admins", async () => {
    for (const role of ["viewer", "editor"] as const) {
      const { cookie } = await client.logIn(role);
      for (const path of ["/access/operators/olga", "/access/tokens/secret-shop"]) {
        expect([role, path, await statusAt(path, cookie)]).toEqual([role, path, 403]);
      }
      for (const path of ["operators/olga/role", "operators/olga/remove", "tokens/secret-shop/revoke"]) {
        expect(await statusAt(`/access/${path}`, cookie, { role: "admin", repeat: "olga" })).toBe(403);
      }
    }
  });
});

describe("Access of an admin", () => {
  test("ends the session of another operator", async () => {
    const other = await client.logIn("editor", "ending");
    await admin.visitAs("admin", { path: "/access" }, async (page) => {
      await takeScreenshots(page, "access");
      await expectAccessible(page);
      await page.getByRole("button", { name: "End a session of ending" }).click();
      await page.getByText("The session has ended.").waitFor();
    });
    expect(await client.isLoggedIn(other.cookie)).toBe(false);
    expect(await lastAudit()).toMatchObject({
      action: "session.end",
      actor: "operator:olga",
      door: "console",
    });
  });

  test("removes an operator by keyboard alone, after the name was typed, and names the tokens that are left", async () => {
    const leaver = await client.logIn("editor", "leaver");
    const sources = ["10.0.0.0/8"];
    await admin.token({
      name: "left-over",
      scopes: ["keys:read"],
      restriction: { tiers: ["free"], mode: "test" },
      sources,
    });
    await admin.database.query(
      (sql) => sql`update tokens set created_by = 'command:leaver' where name = 'left-over'`,
    );
    const visit = { path: "/access", expectedFaults: REFUSED };
    await admin.visitAs("admin", visit, async (page) => {
      await tabTo(page, page.getByRole("link", { name: "leaver" }));
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Operator leaver" }).waitFor();
      await tabTo(page, page.locator("#remove > summary"));
      await page.keyboard.press("Enter");
      await page.locator("#remove").getByText("still work until you revoke them: left-over").waitFor();
      await takeScreenshots(page, "operator-remove");
      await expectAccessible(page);
      const name = page.getByLabel("Type the name to confirm: leaver");
      await tabTo(page, name);
      await page.keyboard.type("leave");
      await page.keyboard.press("Enter");
      await page.locator("#remove-repeat-error").getByText("It must be leaver").waitFor();
      expect(await client.isLoggedIn(leaver.cookie)).toBe(true);
      await name.fill("leaver");
      await page.locator("#remove").getByLabel("Reason").fill("has left <b>us");
      await page.getByRole("button", { name: "Remove the operator" }).click();
      await page.getByText("The operator is removed").waitFor();
      await page.locator(".heading").getByText("removed").waitFor();
      await page.getByRole("link", { name: "left-over" }).first().click();
      await page.getByRole("heading", { name: "Token left-over" }).waitFor();
      expect(await page.locator(".facts").textContent()).toMatch(
        /Scopeskeys:readTiersfreeModetestFrom10\.0\.0\.0\/8Created bycommand:leaver/,
      );
      await page.locator("#revoke > summary").click();
      await takeScreenshots(page, "token-revoke");
      await expectAccessible(page);
      await page.getByLabel("Type the name to confirm: left-over").fill("left-over");
      await page.getByRole("button", { name: "Revoke the token" }).click();
      await page.getByText("The token is revoked").waitFor();
      expect(await page.locator("#revoke").count()).toBe(0);
    });
    expect(await client.isLoggedIn(leaver.cookie)).toBe(false);
    expect((await operator("leaver"))?.removedAt).not.toBeNull();
    const [revoked, removed] = await listAudit(admin.database, { actor: "operator:olga", limit: 2 });
    expect(revoked).toMatchObject({ action: "token.revoke" });
    expect(removed).toMatchObject({ action: "operator.remove", reason: "has left <b>us" });
    const tokens = await listTokens(admin.database, { now: admin.clock.now() });
    expect(tokens.find(({ name }) => name === "left-over")?.state).toBe("revoked");
  });

  test("changes a role, but keeps the last admin", async () => {
    await client.newCode("riser", "viewer");
    await admin.visitAs("admin", { path: "/access/operators/riser", script: false }, async (page) => {
      await page.locator("#role > summary").click();
      await page.getByLabel("Role", { exact: true }).selectOption("editor");
      await page.locator("#role").getByLabel("Reason").fill("is on call");
      await page.getByRole("button", { name: "Change the role" }).click();
      await page.getByText("The operator has another role.").waitFor();
    });
    expect(await operator("riser")).toMatchObject({ role: "editor" });
    expect(await lastAudit()).toMatchObject({ action: "operator.role", reason: "is on call" });
    const last = { path: "/access/operators/olga", expectedFaults: [/status of 409/] };
    await admin.visitAs("admin", last, async (page) => {
      await page.locator("#role > summary").click();
      await page.getByLabel("Role", { exact: true }).selectOption("viewer");
      await page.getByRole("button", { name: "Change the role" }).click();
      expect(await page.getByRole("alert").textContent()).toContain("it is the last admin");
      await expectAccessible(page);
    });
    expect(await operator("olga")).toMatchObject({ role: "admin" });
  });

  test("issues a token with every option by keyboard alone, and shows it once", async () => {
    await admin.visitAs("admin", { path: "/access" }, async (page) => {
      await tabTo(page, page.locator("#issue-token > summary"));
      await page.keyboard.press("Enter");
      await takeScreenshots(page, "token-issue");
      for (const width of [320, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
        await expectAccessible(page);
      }
      const form = page.locator("#issue-token-form");
      expect(await page.evaluate("document.activeElement.id")).toBe("issue-token-name");
      await page.keyboard.type("shop");
      for (const box of ["keys:issue", "accounts:join", "free", "research"]) {
        await tabTo(page, form.locator(`[value="${box}"]`));
        await page.keyboard.press("Space");
      }
      await tabTo(page, form.getByLabel("Mode of the keys"));
      await page.keyboard.type("li");
      await tabTo(page, form.getByLabel("Addresses and networks"));
      await page.keyboard.type("10.0.0.0/8, 192.0.2.1");
      await tabTo(page, form.getByLabel("Expires"));
      await page.keyboard.type("2031-01-31");
      await tabTo(page, form.getByLabel("Reason"));
      await page.keyboard.type("for the shop");
      await page.keyboard.press("Enter");
      await page.getByText("Copy the token now.").waitFor();
      await page.getByText("It adds keys to existing accounts").waitFor();
      await page.getByText(`The API is at ${admin.url}/admin/v1.`).waitFor();
      expect(await page.locator(".facts").textContent()).toContain(
        "Scopeskeys:issue, accounts:joinTiersfree, researchModeliveFrom10.0.0.0/8, 192.0.2.1",
      );
      const token = (await page.locator("#new-token").textContent()) ?? "";
      expect(token).toMatch(/^svc_op_[0-9a-f]{48}$/);
      expect(page.url()).not.toContain(token);
      await takeScreenshots(page, "token-issued");
      await expectAccessible(page);
      await page.reload();
      await page.getByText("It is not shown again").waitFor();
      expect(page.url()).toBe(`${admin.url}/console/access/tokens/shop?done=shown`);
      expect(await page.content()).not.toContain(token);
    });
    expect(await lastAudit()).toMatchObject({ action: "token.issue", reason: "for the shop" });
  });

  test("issues a token without script, names every wrong field, and keeps what was entered", async () => {
    const visit = { path: "/access?open=issue-token", expectedFaults: REFUSED };
    await admin.visitAs("admin", visit, async (page) => {
      const form = page.locator("#issue-token-form");
      await form.getByLabel("Name", { exact: true }).fill("Wrong Name");
      await form.getByLabel("usage:read").check();
      await form.getByLabel("Expires").fill("soon");
      await form.getByRole("button", { name: "Issue the token" }).click();
      await page.locator("#issue-token-name-error").waitFor();
      await page.locator("#issue-token-expires_at-error").waitFor();
      expect(await form.getByLabel("usage:read").isChecked()).toBe(true);
      expect(await form.getByLabel("Expires").inputValue()).toBe("soon");
      await takeScreenshots(page, "token-issue-wrong");
      await expectAccessible(page);
    });
    await admin.visitAs("admin", { path: "/access", script: false }, async (page) => {
      await page.locator("#issue-token > summary").click();
      const form = page.locator("#issue-token-form");
      await form.getByLabel("Name", { exact: true }).fill("reports");
      await form.getByLabel("usage:read").check();
      await form.getByRole("button", { name: "Issue the token" }).click();
      await page.getByText("Copy the token now.").waitFor();
    });
  });

  test("asks for a new login before anything is typed, and the login leads back to the open form", async () => {
    const { cookie } = await client.logIn("admin", "olga");
    const [name = "", value = ""] = cookie.split("=");
    await admin.database.query(
      (sql) =>
        sql`update operator_sessions set created_at = created_at - interval '6 minutes' where operator = 'olga'`,
    );
    const visit = {
      url: `${admin.url}/console/access/tokens/reports?open=renew`,
      cookies: [{ name, value, url: admin.url, httpOnly: true, sameSite: "Strict" as const }],
    };
    await admin.browser.visit(visit, async (page) => {
      const notice = page.locator("#renew-form .notice");
      await notice
        .getByText("Only an operator who logged in within the last five minutes may do this")
        .waitFor();
      expect(await notice.textContent()).toMatch(/Log in again with claviger operators login olga$/);
      expect(await page.locator("#renew-form").getByLabel("Expires").isVisible()).toBe(true);
      await takeScreenshots(page, "token-renew-old-login");
      await expectAccessible(page);
      await notice.getByRole("link", { name: "Log in again" }).click();
      await page.getByLabel("Login code").fill(await admin.code());
      await page.getByRole("button", { name: "Log in" }).click();
      await page.getByRole("button", { name: "Renew the token" }).click();
      await page.getByText("Copy the token now.").waitFor();
    });
  });

  test("leads an admin who gives up the role to a page that the new role may open", async () => {
    const { name, cookie } = await client.logIn("admin");
    const { location } = await client.send(`/access/operators/${name}/role`, {
      cookie,
      form: { role: "viewer" },
    });
    expect(location).toMatch(/^\/console\/access\?done=req_[0-9a-f]+$/);
    expect(await statusAt(`/access/operators/${name}`, cookie)).toBe(403);
  });

  test("answers names that nobody has, and any text, with a page", async () => {
    const { cookie } = await client.logIn("admin");
    for (const name of ["nobody", "Olga", "%3Cimg%3E", "..", "a".repeat(200), "%00", "%E0%A4%A"]) {
      for (const path of [`operators/${name}`, `tokens/${name}`]) {
        expect([path, await statusAt(`/access/${path}`, cookie)]).toEqual([path, 404]);
      }
      for (const path of [`operators/${name}/role`, `operators/${name}/remove`, `tokens/${name}/revoke`]) {
        const form = { role: "viewer", repeat: name, reason: "\u0000" };
        expect(await statusAt(`/access/${path}`, cookie, form)).toBe(404);
      }
    }
  });

  test("is smaller than 150 kB with hundreds of operators and tokens", async () => {
    const now = admin.clock.now();
    await admin.database.query(
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
    const { cookie } = await client.logIn("admin");
    const { text } = await client.send("/access", { cookie });
    expect(Buffer.byteLength(text)).toBeLessThan(150_000);
    expect(text).toContain("more are not shown");
    await admin.visitAs("admin", { path: "/access" }, async (page) => {
      await takeScreenshots(page, "access-many");
      // Axe would take long; it sees the same parts with fewer rows above.
      await page.setViewportSize({ width: 375, height: 800 });
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
      await page.goto(`${admin.url}/console/access/tokens/${LONG.slice(0, 60)}1`);
      await page.getByRole("heading", { name: "Token a-rather" }).waitFor();
      await takeScreenshots(page, "token-longest");
      await expectAccessible(page);
    });
  });
});
