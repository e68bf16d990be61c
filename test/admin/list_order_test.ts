/** The lists of the console have the order that their captions name, and every door has the same orders. */
import { beforeAll, describe, expect, test } from "bun:test";
import { licenseWith, placeMachine } from "../support/machines.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { add, readAll } from "./list_kit.ts";

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
    const heads = [...rows.matchAll(/<th scope="row">.*?<\/th>/gs)].join("");
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
