/** The commands `claviger operators` and `claviger tokens`, while a service with a listener for operators runs. */
import { beforeAll, describe, expect, test } from "bun:test";
import { SCOPES } from "../../src/operators/mod.ts";
import { createCommandLine, refusalOf, usageErrorOf } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line } = useServing(["--admin-listen", "127.0.0.1:0"]);
let consoleLink: string;

beforeAll(async () => {
  ({ link: consoleLink } = await line.json(["operators", "login", "first", "--role", "viewer"]));
  await line.json(["tokens", "issue", "--name", "ended", "--scope", "keys:read"]);
  await line.json(["tokens", "revoke", "ended"]);
});

const audit = async (): Promise<{ action: string; actor: string; reason: string | null; after: object }[]> =>
  line.json(["audit", "--limit", "1"]);

/** Each command with its refusal. The operator `first` is a viewer, and the token `ended` is revoked. */
const FINAL =
  "it is revoked, which is final; issue a token with another name with " +
  "`claviger tokens issue --name NAME --scope SCOPES`";
const REFUSALS = {
  "operators login new":
    "Cannot create login code: no operator is named new; a new operator needs a role: viewer, editor or admin; " +
    "give it with --role",
  "operators login first --role editor":
    "Cannot create login code: first has the role viewer, not editor; change the role first with " +
    "`claviger operators role first ROLE`",
  "operators role nobody editor":
    "Cannot change the role of nobody: no operator has this name; see `claviger operators list`",
  "tokens renew ended": `Cannot renew token ended: ${FINAL}`,
  "tokens resume ended": `Cannot resume token ended: ${FINAL}`,
  "tokens renew none": "Cannot renew token none: no token has this name; see `claviger tokens list`",
  "tokens revoke none": "Cannot revoke token none: no token has this name; see `claviger tokens list`",
  "tokens issue --name ended --scope keys:read":
    "Cannot issue token: the name ended was used before; choose another name",
  "tokens issue --name x --scope keys:read --expires-at 2020-01-01":
    "Cannot issue token: the expiry lies in the past",
};
test.each(Object.entries(REFUSALS))("claviger %s is refused", async (command, refusal) => {
  expect(refusalOf(await line.here(command.split(" ")))).toBe(refusal);
});

/** Asks the running service whether it accepts a token. */
async function whoami(token: string): Promise<{ status: number; name?: string }> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(new URL("/admin/v1/whoami", consoleLink), { headers });
  const { name } = (await response.json()) as { name?: string };
  return { status: response.status, ...(name && { name }) };
}

describe("claviger operators", () => {
  test("login creates an operator with a role, and prints a link to the running service, and the code", async () => {
    const { status, out, err } = await line.here(["operators", "login", "olga", "--role", "admin"]);
    expect(status).toBe(0);
    const code = /^code +([0-9a-f]{32})$/m.exec(out)?.[1];
    const link = out.slice(0, out.indexOf("\n"));
    expect(link).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/console\/enter#/);
    expect(new URL(link).hash).toBe(`#${code}`);
    expect((await fetch(new URL("/admin/v1/whoami", link))).status).toBe(401);
    for (const row of out.split("\n")) expect(row.length).toBeLessThanOrEqual(80);
    expect(err).toBe(
      "Created the operator olga\n" +
        "Open the link, or type the code at /console/enter: either works once, for ten minutes\n",
    );
    expect(await audit()).toMatchObject([{ action: "operator.login", actor: "command:olga" }]);
  });

  test("login uses the address of the settings, and tells what to do without one", async () => {
    const env = { CLAVIGER_ADMIN_URL: "https://admin.example.org" };
    const { link, code, created } = await line.json(["operators", "login", "first"], { env });
    expect({ link, created }).toEqual({
      link: `https://admin.example.org/console/enter#${code}`,
      created: false,
    });
    using alone = createCommandLine({ prepared: true });
    await alone.here(["migrate"]);
    const login = ["operators", "login", "olga", "--role", "admin"];
    const { out, err } = await alone.here(login);
    expect(out).toStartWith("name ");
    expect(err).toContain("No service serves operators here: set CLAVIGER_ADMIN_LISTEN");
    const listening = { env: { CLAVIGER_ADMIN_LISTEN: "127.0.0.1:8081" } };
    expect((await alone.json(login, listening)).link).toStartWith("http://127.0.0.1:8081/console/enter#");
  });

  test("role changes the role of a known operator, with a reason", async () => {
    await line.json(["operators", "login", "ivan", "--role", "viewer"]);
    const change = ["operators", "role", "ivan", "editor", "--reason", "holidays"];
    expect(await line.json(change)).toEqual({ name: "ivan", role: "editor", changed: true });
    expect(await audit()).toMatchObject([{ action: "operator.role", reason: "holidays" }]);
    expect(await line.json(change)).toEqual({ name: "ivan", role: "editor", changed: false });
    expect(usageErrorOf(await line.here(["operators", "role", "ivan", "owner"]))).toContain(
      "It must be one of viewer, editor, admin",
    );
  });

  test("remove asks at a terminal, keeps the last admin, and names the tokens that still work", async () => {
    // An installation of its own, because the test needs to know every operator and every token.
    using own = createCommandLine({ prepared: true });
    await using _ = await own.serve();
    const operators = { first: "viewer", ivan: "editor", olga: "admin" };
    for (const [name, role] of Object.entries(operators)) {
      await own.json(["operators", "login", name, "--role", role]);
    }
    expect(refusalOf(await own.here(["operators", "remove", "olga"]))).toBe(
      "Cannot remove olga: it is the last admin; make another operator an admin first with " +
        "`claviger operators role NAME admin`",
    );
    // The person at the command line is olga.
    await own.json(["tokens", "issue", "--name", "by-olga", "--scope", "keys:read"]);
    await own.json(["operators", "role", "ivan", "admin"]);
    const dry = await own.json(["operators", "remove", "olga", "--dry-run"]);
    expect(dry).toEqual({ name: "olga", removed: false, dry_run: true, sessions: 0, tokens: ["by-olga"] });
    const atTerminal = { isTerminal: true, isTyped: true };
    const asked = await own.here(["operators", "remove", "olga"], { ...atTerminal, input: "no\n" });
    expect(asked.status).toBe(1);
    expect(asked.err).toContain("Remove olga, who has 0 sessions? The name is not used again.");
    const { out, err } = await own.here(["operators", "remove", "olga"], { ...atTerminal, input: "yes\n" });
    expect(out).toBe("Removed olga, and ended 0 sessions\n");
    expect(err).toContain(
      "Tokens that olga issued still work: by-olga; `claviger tokens revoke NAME` revokes one",
    );
    expect(await own.json(["operators", "list"])).toMatchObject([
      { name: "first", role: "viewer", state: "active" },
      { name: "ivan", role: "admin", state: "active", removed_at: null },
      { name: "olga", role: "admin", state: "removed", removed_at: expect.stringMatching(/Z$/) },
    ]);
    expect(refusalOf(await own.here(["operators", "login", "olga", "--role", "admin"]))).toContain(
      "the operator olga was removed, and names are not used again; choose another name",
    );
  });
});

describe("claviger tokens", () => {
  /** Returns the row of a token in the list. */
  const listed = async (name: string) =>
    (await line.json(["tokens", "list"])).find((token: { name: string }) => token.name === name);

  test("renew changes the expiry, and removes it with never", async () => {
    const name = ["--name", "ending", "--scope", "keys:read", "--expires-at", "2099-01-01"];
    await line.json(["tokens", "issue", ...name]);
    const endOf = async (...options: string[]) => {
      await line.json(["tokens", "renew", "ending", ...options]);
      return (await listed("ending")).expires_at;
    };
    expect(await endOf()).toBe("2099-01-01T23:59:59Z");
    expect(await endOf("--expires-at", "2098-01-01", "--shorten")).toBe("2098-01-01T23:59:59Z");
    expect(await endOf("--expires-at", "never")).toBeNull();
  });

  test("issue takes every scope, tier and network of an option that is given twice", async () => {
    const twice = ["--scope", "keys:read", "--scope", "keys:issue", "--tiers", "free", "--tiers", "research"];
    const from = ["--from", "10.0.0.0/8", "--from", "192.0.2.1"];
    await line.json(["tokens", "issue", "--name", "twice", ...twice, ...from]);
    expect(await listed("twice")).toMatchObject({
      scopes: ["keys:read", "keys:issue"],
      tiers: ["free", "research"],
      from: ["10.0.0.0/8", "192.0.2.1"],
    });
  });

  test("issue gives a token the scopes of a preset, and those of --scope beside it", async () => {
    const issue = async (name: string, ...more: string[]) =>
      (await line.json(["tokens", "issue", "--name", name, ...more])).scopes;
    expect(await issue("watcher", "--preset", "monitoring")).toEqual(["usage:read", "status:read"]);
    expect(await issue("watcher-2", "--scope", "audit:read,usage:read", "--preset", "monitoring")).toEqual([
      ...["usage:read", "audit:read", "status:read"],
    ]);
    expect(await listed("watcher")).toMatchObject({ scopes: ["usage:read", "status:read"], tiers: null });
    const limited = await line.json([
      "tokens",
      "issue",
      "--name",
      "limited",
      "--preset",
      "shop",
      "--tiers",
      "free",
    ]);
    expect(limited.scopes).toEqual(["keys:read", "keys:issue", "keys:manage", "accounts:join"]);
  });

  test("issue refuses an unknown preset, and a token without scopes, and issues none", async () => {
    const issue = (...more: string[]) => line.here(["tokens", "issue", "--name", "none", ...more]);
    expect(usageErrorOf(await issue("--preset", "till"))).toContain("one of shop, monitoring, pipeline, crm");
    expect(usageErrorOf(await issue())).toContain("Cannot issue token: it needs --preset or --scope");
    expect(usageErrorOf(await issue("--preset", "crm", "--tiers", "free"))).toContain("restricted to tiers");
    expect(await listed("none")).toBeUndefined();
  });

  test("issue, renew and revoke: the running service accepts the newest secret until the revocation", async () => {
    const issue = ["tokens", "issue", "--name", "shop", "--scope", "keys:read"];
    const { status, out, err } = await line.here(issue);
    expect({ status, err }).toEqual({ status: 0, err: "The token is shown only once: store it now\n" });
    const token = /^token +(svc_op_[0-9a-f]{48})$/m.exec(out)?.[1] ?? "";
    expect(await whoami(token)).toEqual({ status: 200, name: "shop" });
    const renewed = await line.json(["tokens", "renew", "shop"]);
    expect(renewed).toEqual({ name: "shop", token: renewed.token, state: "active" });
    expect(await whoami(token)).toEqual({ status: 401 });
    expect(await whoami(renewed.token)).toEqual({ status: 200, name: "shop" });
    const atTerminal = { isTerminal: true, isTyped: true, input: "yes\n" };
    const asked = await line.here(["tokens", "revoke", "shop"], atTerminal);
    expect(asked.err).toContain("Revoke shop? A revoked token never works again. Type yes to go on: ");
    expect(asked.out).toBe("Revoked shop\n");
    expect(await whoami(renewed.token)).toEqual({ status: 401 });
    expect((await line.here(["tokens", "revoke", "shop"])).out).toBe(
      "Nothing changed: shop is revoked already\n",
    );
  });

  test("issue takes scopes, tiers, mode, networks and an expiry, and list shows them within 80 columns", async () => {
    const scopes = ["keys:read", "keys:issue", "keys:manage", "accounts:join"];
    const limits = ["--tiers", "free, research", "--mode", "test", "--expires-at", "2040-01-01"];
    const networks = ["--from", "10.0.0.0/8,192.0.2.1,2001:db8::/32"];
    const options = ["--name", "narrow", "--scope", scopes.toReversed().join(), ...limits, ...networks];
    const issued = await line.json(["tokens", "issue", ...options]);
    const expected = {
      name: "narrow",
      scopes,
      tiers: ["free", "research"],
      mode: "test",
      from: ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"],
      expires_at: "2040-01-01T23:59:59Z",
    };
    expect(issued).toMatchObject(expected);
    const row = { ...expected, state: "active", created_by: "command:olga", last_used_at: null };
    expect(await listed("narrow")).toMatchObject(row);
    expect((await line.here(["tokens", "list", "--json"])).out).not.toContain("svc_op_");
    const every = SCOPES.filter((scope) => scope !== "keys:revoke" && scope !== "accounts:join").join();
    await line.json(["tokens", "issue", "--name", "every", "--scope", every]);
    const six = "keys:manage,accounts:read,accounts:write,accounts:erase,models:write,status:read";
    const { out: issuedSix } = await line.here(["tokens", "issue", "--name", "six", "--scope", six]);
    const { out } = await line.here(["tokens", "list"], { columns: 80 });
    expect(out).toContain("all but keys:revoke");
    // Both commands show limits in the same words; the list breaks a long text between words.
    const [, shown = ""] = /^scopes +(.*)$/m.exec(issuedSix) ?? [];
    expect(shown).toBe(six.replaceAll(",", ", "));
    expect(out.replaceAll(/\s+/g, " ")).toContain(`${shown} all both everywhere`);
    expect(out).toContain("10.0.0.0/8 and 2 more");
    for (const text of out.split("\n")) expect(text.length).toBeLessThanOrEqual(80);
  });

  test("issue says what a restriction means, and refuses scopes that a restricted token cannot have", async () => {
    const args = ["--tiers", "free", "--name"];
    const issue = (...more: string[]) => line.here(["tokens", "issue", ...args, ...more]);
    expect((await issue("new", "--scope", "keys:issue")).err).toEndWith("needs the scope accounts:join\n");
    const joining = await issue("joining", "--scope", "keys:issue,accounts:join");
    expect(joining.err).toEndWith("send only an e-mail that you have verified\n");
    expect(usageErrorOf(await issue("x", "--scope", "keys:read,accounts:write"))).toEndWith(
      "keys:revoke, accounts:join",
    );
  });

  const networks = "1 to 32 addresses and networks such as 10.0.0.0/8";
  const wrongValues: [option: string, value: string, allowed: string][] = [
    ["--scope", "keys:read,keys:all", "one or more of keys:read, keys:issue"],
    ["--scope", "", "one or more of keys:read"],
    ["--tiers", "gold", "one or more of free, research"],
    ["--mode", "both", "It must be one of live, test"],
    ["--from", "", networks],
    ["--from", "10.0.0.0/8,", networks],
    ["--from", "host", networks],
    ["--from", "0.0.0.0/0", networks],
    ["--name", "My Shop", "It must be 1 to 64 lowercase letters"],
  ];
  test.each(wrongValues)("issue names the values that are allowed: %s %j", async (option, value, allowed) => {
    const args = ["tokens", "issue", "--name", "x", "--scope", "keys:read", option, value];
    expect(usageErrorOf(await line.here(args))).toContain(allowed);
  });

  test("issue refuses 33 networks", async () => {
    const from = Array(33).fill("10.0.0.1").join(",");
    const args = ["tokens", "issue", "--name", "x", "--scope", "keys:read", "--from", from];
    expect(usageErrorOf(await line.here(args))).toContain(networks);
  });

  test("refuse a token as an argument, and do not repeat it", async () => {
    const { token } = await line.json(["tokens", "issue", "--name", "typed", "--scope", "keys:read"]);
    for (const args of [
      ["tokens", "revoke", token],
      ["tokens", "issue", `--name=${token}`, "--scope", "keys:read"],
    ]) {
      const why = usageErrorOf(await line.here(args));
      expect(why).toContain("A token must not be an argument");
      expect(why).not.toContain(token.slice(-48));
    }
  });
});
