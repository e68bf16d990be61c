/** The lists of the console have the order that their captions name, and every door has the same orders. */
import { beforeAll, describe, expect, test } from "bun:test";
import { licenseWith, placeMachine } from "../support/machines.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { add, readAll } from "./list_kit.ts";
import { makeSampleNotice } from "./sample_requests.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("admin"));
  for (const name of ["older", "newer"]) {
    await admin.issue({ email: `${name}@example.org` });
    await add(admin, name);
  }
});

test.each(["/keys", "/accounts", "/models", "/audit?action=model.add"])(
  "%s shows the newest first, as its caption says",
  async (path) => {
    const [, caption, rows = ""] =
      /<caption>(?:<span[^>]*>)?(.*?)<.*?caption>(.*)<\/table>/s.exec(
        (await client.send(path, { cookie })).text,
      ) ?? [];
    expect(caption).toContain(", newest first");
    expect(rows.match(/\b(older|newer)\b/g)?.filter((word, at, all) => word !== all[at - 1])).toEqual([
      "newer",
      "older",
    ]);
  },
);

describe.each(["keys", "accounts", "machines"])("the list of %s", (list) => {
  const ids = (rows: readonly Record<string, unknown>[]) => rows.map(({ id }) => String(id));

  /** Returns the ids that the page shows, each once. */
  async function onPage(query: string) {
    const { text } = await client.send(`/${list}?${query}`, { cookie });
    const [rows = ""] = /<tbody>.*?<\/tbody>/s.exec(text) ?? [];
    const heads = [...rows.matchAll(/<th>.*?<\/th>/gs)].join("");
    return [...new Set(heads.match(/(?:key|usr|mch)_[0-9a-f]{32}/g) ?? [])];
  }

  test("has the same orders at every door, over all pages", async () => {
    const license = await licenseWith(admin.database, { maxMachines: 3 });
    for (const fingerprint of ["one", "two", "three"])
      await placeMachine(admin.database, license, fingerprint);
    const oldest = ids(await readAll(admin, `/${list}?limit=2`));
    expect(oldest).toEqual(oldest.toSorted());
    expect(oldest.length).toBeGreaterThan(2);
    for (const [sort, expected] of [
      ["oldest", oldest],
      ["newest", oldest.toReversed()],
    ] as const) {
      const [first = ""] = expected;
      const command = [list, "list", "--sort", sort];
      expect({
        sort,
        api: ids(await readAll(admin, `/${list}?limit=2&sort=${sort}`)),
        command: ids(await commands.json(command)),
        behindFirst: ids(await commands.json([...command, "--after", first])),
        page: await onPage(`sort=${sort}`),
        pageBehindFirst: await onPage(`sort=${sort}&after=${first}`),
        pageBeforeLast: await onPage(`sort=${sort}&before=${expected.at(-1)}`),
      }).toEqual({
        sort,
        api: expected,
        command: expected,
        behindFirst: expected.slice(1),
        page: expected,
        pageBehindFirst: expected.slice(1),
        // A page that is not full begins with the first row.
        pageBeforeLast: expected,
      });
    }
    expect(await onPage("")).toEqual(oldest.toReversed());
  });
});

describe("the list of accounts by e-mail", () => {
  test("is the same at every door, over all pages, also for e-mails that share a beginning", async () => {
    for (const name of ["b", "a", "ab", "a-b"])
      await admin.issue({ email: `${name}@order.example`, name: name === "a" ? "Zoe" : name });
    const emails = (rows: readonly Record<string, unknown>[]) => rows.map(({ email }) => String(email));
    const { database } = admin;
    const rows = await database.query<{ email: string; id: string }>(
      (sql) => sql`select email, 'usr_' || replace(id::text, '-', '') as id from accounts order by email`,
    );
    const [all, [first]] = [emails(rows), rows];
    expect(emails(await readAll(admin, "/accounts?limit=2&sort=email"))).toEqual(all);
    const command = ["accounts", "list", "--sort", "email"];
    expect(emails(await commands.json(command))).toEqual(all);
    expect(emails(await commands.json([...command, "--after", first?.id ?? ""]))).toEqual(all.slice(1));
    const shown = async (query: string) => {
      const { text } = await client.send(`/accounts?sort=email${query}`, { cookie });
      return [...text.matchAll(/<th>.*?<bdi>(.*?)<\/bdi>/gs)].map(([, email]) => email);
    };
    expect(await shown("")).toEqual(all);
    expect(await shown(`&after=${first?.id}`)).toEqual(all.slice(1));
    expect(await shown(`&before=${rows.at(-1)?.id}`)).toEqual(all);
  });
});

test("the list of models has the orders that its head offers: by name, newest and oldest first", async () => {
  const names = async (query: string) => {
    const { text } = await client.send(`/models${query}`, { cookie });
    return [...text.matchAll(/<th>.*?<bdi>(.*?)<\/bdi>/gs)].map(([, name]) => name);
  };
  await add(admin, "a-last");
  expect(await names("")).toEqual(["a-last", "newer", "older"]);
  expect(await names("?sort=oldest")).toEqual(["older", "newer", "a-last"]);
  expect(await names("?sort=name")).toEqual(["a-last", "newer", "older"]);
  await add(admin, "z-last");
  expect(await names("?sort=name")).toEqual(["a-last", "newer", "older", "z-last"]);
});

describe("the order of a list that an operator chooses", () => {
  const captionOf = (text: string) => /<caption>(?:<span[^>]*>)?([^<;]*)/.exec(text)?.[1];
  const open = async (path: string, kept = "") => {
    const { headers, text } = await client.send(path, { cookie: `${cookie}; ${kept}` });
    const [set] = headers.getSetCookie();
    return { caption: captionOf(text), set, text };
  };

  test("is kept for this list alone, until another one is chosen, and counts where no condition is asked for", async () => {
    const chosen = await open("/accounts?sort=email");
    expect(chosen.set).toMatch(
      /^claviger_\d+_order=email; Max-Age=34560000; Path=\/console\/accounts; HttpOnly; SameSite=Strict$/,
    );
    const [kept = ""] = chosen.set?.split(";") ?? [];
    const again = await open("/accounts", kept);
    expect(again.caption).toEndWith("accounts, by e-mail");
    expect(again.text).toContain('<option value="email" selected');
    expect(again.set).toBeUndefined();
    expect((await open("/accounts?search=example", kept)).caption).toEndWith(", newest first");
    // A change that began in the list leads back to this address.
    expect((await open(`/accounts?done=${crypto.randomUUID()}`, kept)).caption).toEndWith(
      "accounts, by e-mail",
    );
    const back = await open("/accounts?search=&sort=", kept);
    expect(back.caption).toEndWith(", newest first");
    expect(back.set).toMatch(/^claviger_\d+_order=; Max-Age=0; Path=\/console\/accounts/);
  });

  test("is neither kept nor taken if the list does not have it", async () => {
    expect((await open("/accounts?sort=most_used")).set).toBeUndefined();
    const name = (await open("/accounts?sort=oldest")).set?.split("=")[0];
    for (const wrong of ["most_used", "x".repeat(3_000), "%00", "email&after=1"])
      expect((await open("/accounts", `${name}=${wrong}`)).caption).toEndWith(", newest first");
    expect((await open("/audit?sort=newest")).set).toBeUndefined();
  });
});

test("a list says by which of its columns it has no order, and why", async () => {
  const hint = async (path: string) =>
    /<p class="hint unordered">(This list cannot be ordered by [^<]*)/.exec(
      (await client.send(path, { cookie })).text,
    )?.[1];
  expect(await hint("/keys")).toBe(
    "This list cannot be ordered by account, state, tier, mode: with many keys that would take too long.",
  );
  expect(await hint("/accounts")).toBe(
    "This list cannot be ordered by tier, state, used this month, keys: with many accounts that would take too long.",
  );
  // The order that the list has, newest first, is about the time.
  expect(await hint("/audit")).toBe(
    "This list cannot be ordered by actor, what, change, reason: with many changes that would take too long.",
  );
  // The column of buttons has no order to name.
  for (const _ of ["one", "two"]) await makeSampleNotice(admin);
  expect(await hint("/notices")).toBe(
    "This list cannot be ordered by notice, account, state: with many notices that would take too long.",
  );
});
