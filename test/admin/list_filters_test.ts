/** The filters of the lists: they find what the commands find, and a refusal names the filter. */

import { describe, expect, test } from "bun:test";
import { revokeKey, rotateKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { BRAND } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useForEach } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { add, by, DAY_MS, readAll, use } from "./list_kit.ts";

const admin = useForEach(startAdmin);

describe("the results of the commands", () => {
  const commands = useForEach(() => commandsOn(admin.testDatabase, admin.clock));

  test("GET /keys finds the keys that meet each filter and several together, and so does `keys list`", async () => {
    const { clock } = admin;
    const soon = new Date(clock.now().getTime() + 3 * DAY_MS);
    const first = await admin.issue({ email: "olga@example.org", name: "Olga Petrova", tier: "free" });
    await admin.issue({ email: "olga@example.org", name: "Olga Petrova", tier: "commercial", mode: "test" });
    await admin.issue({ email: "ada@example.org", organization: "Petrova Labs", expiresAt: soon });
    const suspended = await admin.issue({ email: "eve@example.org" });
    await suspendKey(createLicenseChanges(admin.database), uuidOf(suspended), by(admin));
    const rotated = await admin.issue({ email: "rot@example.org", externalId: "order-17" });
    await rotateKey(
      createLicenseChanges(admin.database),
      { uuid: uuidOf(rotated), mode: "live", overlapMs: DAY_MS },
      { brand: BRAND, ...by(admin) },
    );
    const revoked = await admin.issue({ email: "gone@example.org" });
    await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(revoked) }, by(admin));
    await use(admin, first, 12);
    const found: readonly [filter: Record<string, string>, names: string][] = [
      [{}, "olga olga ada eve rot rot gone"],
      [{ search: "petrov" }, "olga olga ada"],
      [{ search: first.apiKey.slice(-4) }, "olga"],
      [{ search: "nobody" }, ""],
      [{ account: "OLGA@example.org" }, "olga olga"],
      [{ account: first.userId }, "olga olga"],
      [{ external_id: "order-17" }, "rot rot"],
      [{ external_id: "order" }, ""],
      [{ tier: "commercial" }, "olga"],
      [{ tier: "enterprise" }, ""],
      [{ state: "active" }, "olga olga ada rot rot"],
      [{ state: "suspended" }, "eve"],
      [{ state: "revoked" }, "gone"],
      [{ state: "expired" }, ""],
      [{ mode: "test" }, "olga"],
      [{ expiring_within: "4" }, "ada"],
      [{ expiring_within: "0" }, ""],
      [{ search: "petrova", tier: "free", mode: "live", state: "active" }, "olga"],
    ];
    for (const [filter, names] of found) {
      const listed = await readAll(admin, `/keys?${new URLSearchParams(filter)}`);
      const emails = names.split(" ").flatMap((name) => (name === "" ? [] : [`${name}@example.org`]));
      expect({ filter, emails: listed.map(({ email }) => email) }).toEqual({ filter, emails });
      // The command looks up search and account by itself. It takes the declared conditions as the API does.
      if (!("search" in filter || "account" in filter)) continue;
      const args = Object.entries(filter).map(([name, value]) => `--${name}=${value}`);
      expect({ filter, listed }).toEqual({ filter, listed: await commands.json(["keys", "list", ...args]) });
    }
  });

  test("GET /accounts and `accounts list` find the same accounts", async () => {
    const key = await admin.issue({ email: "olga@example.org", name: "Olga" });
    await admin.issue({ email: "olga@example.org", name: "Olga" });
    await admin.issue({ email: "ada@example.org", organization: "Olga & Sons" });
    for (const search of [undefined, "olga", key.apiKey.slice(-4), "x"]) {
      const listed = await readAll(admin, `/accounts${search ? `?search=${search}` : ""}`);
      const args = search ? ["--search", search] : [];
      expect(listed).toEqual(await commands.json(["accounts", "list", ...args]));
    }
    expect((await admin.call("GET", `/accounts/${key.userId}`)).body).toEqual(
      (await commands.json(["accounts", "list", "--search", "olga@example.org"]))[0],
    );
  });

  test("GET /models and `models list` show the same models", async () => {
    for (const name of ["a", "b", "c"]) await add(admin, name);
    await add(admin, "a", "2.0.0");
    const listed = await readAll(admin, "/models?limit=2");
    expect(listed).toEqual(await commands.json(["models", "list"]));
    expect(listed.map(({ version }) => version)).toEqual(["2.0.0", "1.0.0", "1.0.0"]);
  });
});

describe("filters that are refused", () => {
  test("GET /keys refuses an unknown account", async () => {
    const unknown = await admin.call("GET", "/keys?account=nobody@example.org");
    expect({ status: unknown.status, body: unknown.body }).toEqual({
      status: 404,
      body: {
        code: "NOT_FOUND",
        error: "Cannot list keys: no account has the id or e-mail nobody@example.org",
      },
    });
  });

  test("a search that more than 1,000 accounts match is refused, and no list is shortened silently", async () => {
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
        error:
          "Cannot search: more than 1,000 accounts or external ids match: search for more or longer words",
      });
    }
    expect((await admin.call("GET", "/accounts?search=same-1001")).body.data).toHaveLength(1);
  });
});
