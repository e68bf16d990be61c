/** The login at an identity provider: `oidc-provider` in a process of its own, real HTTP, real PostgreSQL. */
import { beforeEach, describe, expect, test } from "bun:test";
import { renameSync } from "node:fs";
import { listAudit } from "../../../src/audit/mod.ts";
import { listOperators, listSessions, removeOperator } from "../../../src/operators/mod.ts";
import { createConsoleClient } from "../../admin/console_client.ts";
import { textsOf } from "../../admin/texts_of.ts";
import { startConsoleWithProvider } from "../../support/identity_provider.ts";
import { ACTOR, orThrow } from "../../support/issue.ts";
import { useForAll } from "../../support/use.ts";
import { createProviderBrowser } from "./provider_browser.ts";

const admin = useForAll(() => startConsoleWithProvider());
const client = createConsoleClient(admin);
const by = () => ({ actor: ACTOR, now: admin.clock.now() });

let people = 0;

/** Adds a person to the provider; the name is another one in each test. */
function newPerson(groups: readonly string[]) {
  const name = `person-${++people}`;
  const person = { subject: `subject-${people}`, name: `${name}@example.org`, groups };
  const set = (changed: readonly string[]) =>
    admin.provider.setPeople({ [name]: { ...person, groups: changed } });
  set(groups);
  return { name, setGroups: set };
}

const newBrowser = () => createProviderBrowser(admin.url);

beforeEach(() => admin.clock.advance(61_000));

describe("The login at the provider", () => {
  test("creates the operator with the role of the highest group, and leads to the page that asked for it", async () => {
    const { name } = newPerson(["sales", "licensing-admins", "others"]);
    const browser = newBrowser();
    const { status, text } = await browser.logIn(name, "?to=%2Fconsole%2Fkeys%3Ftier%3Dfree");
    expect(status).toBe(200);
    expect(text).toContain('<meta http-equiv="refresh" content="0; url=/console/keys?tier=free"/>');
    expect(text).toContain(`Go on as ${name}`);
    expect(await browser.open("/access/tokens/none")).toBe(404);
    const operator = (await listOperators(admin.database)).find((each) => each.name === name);
    expect(operator).toMatchObject({ role: "admin", issuer: admin.provider.issuer });
  });

  test("decides the role, which the page of the operator says and does not offer to change", async () => {
    const { name } = newPerson(["licensing-admins"]);
    const browser = newBrowser();
    await browser.logIn(name);
    const page = await browser.send(`${admin.url}/console/access/operators/${name}`);
    const text = await page.text();
    expect(textsOf(text, ".facts")[0]).toContain("admin, by the groups at the provider");
    expect(textsOf(text, ".action > summary")).toEqual(["Remove…"]);
  });

  test("sets a Strict cookie for the session, and no cookie of the login remains", async () => {
    const { name } = newPerson(["sales"]);
    const browser = newBrowser();
    const callback = await browser.signIn(name);
    const before = [...browser.cookies.keys()].filter((cookie) => cookie.startsWith("claviger_"));
    expect(before).toEqual([
      expect.stringMatching(new RegExp(`^claviger_${new URL(admin.url).port}_login_[\\w-]{8}$`)),
    ]);
    const begun = await newBrowser().send(`${admin.url}/console/enter/provider`);
    expect(begun.headers.getSetCookie()).toEqual([
      expect.stringMatching(/; Max-Age=600; Path=\/console\/callback; HttpOnly; SameSite=Lax$/),
    ]);
    const answer = await browser.send(callback);
    const set = answer.headers.getSetCookie().find((line) => line.includes("Strict"));
    expect(set).toMatch(/^claviger_\d+=[0-9a-f]{64}.*HttpOnly; SameSite=Strict$/);
    expect([...browser.cookies.keys()].filter((cookie) => cookie.includes("_login"))).toEqual([]);
  });

  test("follows the groups: another role at the next login, and without a group no access at all", async () => {
    const { name, setGroups } = newPerson(["support"]);
    const browser = newBrowser();
    await browser.logIn(name);
    expect(await browser.open("/keys/issue")).toBe(200);
    setGroups(["sales"]);
    const again = newBrowser();
    expect((await again.logIn(name)).status).toBe(200);
    expect(await browser.open("/keys/issue")).toBe(403);
    setGroups(["others"]);
    const { status, text } = await newBrowser().logIn(name);
    expect(status).toBe(403);
    expect(text).toContain(
      "Example Staff has you in none of the groups that may log in: licensing-admins, support, sales",
    );
    // The sessions of before have ended, too.
    expect([await browser.open("/keys"), await again.open("/keys")]).toEqual([303, 303]);
  });

  test("is refused for an operator who was removed", async () => {
    const { name } = newPerson(["support"]);
    const browser = newBrowser();
    await browser.logIn(name);
    orThrow(await removeOperator(admin.database, name, by()));
    expect(await browser.open("/keys")).toBe(303);
    const { status, text } = await newBrowser().logIn(name);
    expect([status, text.includes("You were removed as an operator")]).toEqual([403, true]);
  });

  test("ends the session that the browser had", async () => {
    const { name } = newPerson(["support"]);
    const browser = newBrowser();
    await browser.logIn(name);
    await browser.logIn(name);
    const sessions = await listSessions(admin.database, { now: admin.clock.now() });
    expect(sessions.filter(({ operator }) => operator === name)).toHaveLength(1);
  });

  test("writes an audit row with address and way", async () => {
    const { name } = newPerson(["sales"]);
    await newBrowser().logIn(name);
    const [row] = await listAudit(admin.database, { limit: 1 });
    expect(row).toMatchObject({
      action: "session.begin",
      actor: `operator:${name}`,
      after: { way: "provider" },
      address: "127.0.0.1",
    });
  });

  test("asks the provider for a new login if the proof must be fresh", async () => {
    const { name } = newPerson(["licensing-admins"]);
    const browser = newBrowser();
    await browser.logIn(name);
    // The provider has a session, so it does not ask again.
    expect(await browser.signIn(name)).toStartWith(`${admin.url}/console/callback`);
    const started = await browser.send(`${admin.url}/console/enter/provider?fresh=1`);
    const address = new URL(started.headers.get("location") ?? "");
    expect(address.searchParams.get("max_age")).toBe("0");
    const page = await browser.send(address.href);
    expect(page.headers.get("location")).toContain("/login/");
  });

  test("leads to the logout of the provider, from where the browser may come back", async () => {
    const answer = await newBrowser().send(`${admin.url}/console/enter/leave`);
    expect(answer.status).toBe(303);
    const address = new URL(answer.headers.get("location") ?? "");
    expect(address.origin).toBe(admin.provider.issuer);
    expect((await fetch(address)).status).toBe(200);
  });

  test("begins in one process and ends in another, as behind a balancer", async () => {
    const { name } = newPerson(["support"]);
    const browser = newBrowser();
    const replica = await admin.startReplica();
    try {
      const toReplica = (address: string) =>
        browser.send(address.replace(admin.url, replica.url), { headers: { host: new URL(admin.url).host } });
      const callback = await browser.signIn(name);
      expect((await toReplica(callback)).status).toBe(200);
      expect(await browser.open("/keys")).toBe(200);
      const begun = await toReplica(`${admin.url}/console/enter/provider`);
      const back = await browser.send(begun.headers.get("location") ?? "");
      expect((await browser.send(back.headers.get("location") ?? "")).status).toBe(200);
    } finally {
      await replica.close();
    }
  });

  test("tells strangers no path of the host if the secret cannot be read, but the log", async () => {
    const file = admin.settings.secretFile ?? "";
    renameSync(file, `${file}.away`);
    const answer = await newBrowser().send(`${admin.url}/console/enter/provider`);
    renameSync(`${file}.away`, file);
    const text = await answer.text();
    expect([answer.status, text.includes("see the log of the service"), text.includes(file)]).toEqual([
      503,
      true,
      false,
    ]);
    expect(admin.logLines.some((line) => line.includes(`${file}: there is no such file`))).toBe(true);
  });

  test("is offered by the login page, beside the code, which works as before", async () => {
    const { text } = await client.send("/enter?to=%2Fconsole%2Fkeys");
    expect(text).toContain('href="/console/enter/provider?to=%2Fconsole%2Fkeys"');
    expect(text).toContain("Log in with Example Staff");
    const { cookie } = await client.logIn("viewer", "root");
    expect(await client.isLoggedIn(cookie)).toBe(true);
  });
});
