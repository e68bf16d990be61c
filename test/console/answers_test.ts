/** The answers to the forms of the console: `support/crawl.ts` says what is examined. `pages_test.ts` has the pages. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { createConsoleClient } from "../admin/console_client.ts";
import { CONSOLE_FORMS, makeVisit } from "../admin/sample_visits.ts";
import { useForAll } from "../support/use.ts";
import { startConsole } from "./support/console.ts";
import { examineAnswer } from "./support/crawl.ts";

// Axe can take some seconds for a page on a busy machine.
setDefaultTimeout(120_000);

const admin = useForAll(startConsole);

async function makeForm(route: string) {
  const [method = "", path = ""] = route.split(" ");
  return await makeVisit(admin, { method, path });
}

const nameIn = (route: string) => route.replace("POST ", "").replaceAll(/\W+/g, "-");

/** Their answers are files, or are no pages. */
const WITHOUT_PAGE = [
  "POST /keys/many.csv",
  "POST /keys/:id/license",
  "POST /keys/:id/bundle",
  "PUT /models/:name/:version/file",
];

/** Their answers are pages of their own. */
const OWN_PAGES = [
  "POST /keys/issue",
  "POST /keys/:id/rotate",
  "POST /keys/:id/replace",
  "POST /keys/many",
  "POST /keys/many/suspend",
  "POST /keys/many/resume",
  "POST /keys/many/renew",
  "POST /keys/many/tier",
  "POST /keys/many/limit",
  "POST /keys/many/machines",
  "POST /keys/many/offline",
  "POST /keys/many/updates",
  "POST /keys/many/features",
  "POST /keys/many/values",
  "POST /keys/many/revoke",
  "POST /accounts/:id/erasure/erase",
  "POST /machines/many",
  "POST /machines/many/release",
  "POST /usage/reports",
  "POST /usage/reports/import",
  "POST /tiers/values",
  "POST /access/issue-token",
  "POST /access/tokens/:name/renew",
];

/** For each page with forms, one form whose answer leads back to that page. */
const LEADING_BACK = [
  "POST /keys/:id/revoke",
  "POST /accounts/:id/renew",
  "POST /machines/:id/release",
  "POST /notices/muted/unmute",
  "POST /models/_add",
  "POST /models/:name/remove",
  "POST /access/sessions/:id/end",
  "POST /access/operators/:name/remove",
  "POST /access/tokens/:name/revoke",
  "POST /logout",
];

test("Every other form leads back to its page", async () => {
  const client = createConsoleClient(admin);
  const left = Object.keys(CONSOLE_FORMS).filter((name) => ![...WITHOUT_PAGE, ...OWN_PAGES].includes(name));
  for (const route of left) {
    const { cookie } = await client.logIn("admin");
    const { path, form = {} } = await makeForm(route);
    expect([route, (await client.send(path, { cookie, form })).status]).toEqual([route, 303]);
  }
  expect(left).toEqual(expect.arrayContaining(LEADING_BACK));
});

describe("The answer", () => {
  test.each([...OWN_PAGES, ...LEADING_BACK])("to %s is whole", async (route) => {
    await examineAnswer(admin, await makeForm(route), { name: `answer-${nameIn(route)}` });
  });

  // For each page one form, with as many fields as possible.
  test.each([
    "POST /keys/issue",
    "POST /keys/:id/renew",
    "POST /keys/:id/machines",
    "POST /keys/:id/features",
    "POST /keys/many/limit",
    "POST /usage/reports",
    "POST /tiers/values",
    "POST /accounts/:id/change",
    "POST /accounts/:id/erasure/erase",
    "POST /machines/:id/release",
    "POST /models/_add",
    "POST /models/:name/retire",
    "POST /access/issue-token",
    "POST /access/operators/:name/role",
    "POST /access/tokens/:name/renew",
  ])("to %s with wrong fields is whole", async (route) => {
    const { path, form = {} } = await makeForm(route);
    // The page of many keys needs the keys.
    const isKept = (name: string) => name === "id" || name === "total";
    const wrong = Object.entries(form).map(([name, value]) => [name, isKept(name) ? value : "a\u0007b"]);
    const visit = { path, form: Object.fromEntries(wrong) };
    await examineAnswer(admin, visit, { name: `wrong-${nameIn(route)}`, refused: 400 });
  });

  test("to a code that does not work is whole", async () => {
    await examineAnswer(
      admin,
      { path: "/enter", form: { code: "00" } },
      { name: "enter-refused", refused: 401 },
    );
  });

  test("to a code of somebody else than is logged in is whole", async () => {
    const code = await createConsoleClient(admin).newCode("vera", "viewer");
    await examineAnswer(admin, { path: "/enter", form: { code } }, { name: "enter-replaces" });
  });
});
