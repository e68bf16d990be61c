/** The lists of the console have the order that their captions name. */
import { beforeAll, expect, test } from "bun:test";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { add } from "./list_kit.ts";

const admin = useAdmin();
const client = createConsoleClient(admin);
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
