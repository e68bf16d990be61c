/** After a login the browser goes back to the page that asked for it, and never to an address that somebody made up. */
import { describe, expect, test } from "bun:test";
import { wayBackOf } from "../../src/admin/frame/console/way_back.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";

const HOUR_MS = 3_600_000;

const admin = useAdmin();
const client = createConsoleClient(admin);
/** The address of the login page that leads to a page. */
const enter = (to: string) => `/console/enter?ended&to=${encodeURIComponent(to)}`;

const PAGES = [
  "/console/keys",
  "/console/keys?account=usr_1&sort=email&sort=-state",
  "/console/keys/key_01a21e2b2ffd7195b2166f38a2819002?open=suspend&done=req_01a21e2b391c7f78ad2af180e947e000",
  "/console/access/operators/vera?open=role#role-form",
  "/console/models/a%2Bb",
  "/console/audit?search=%C3%A4%20b&to=//evil.example",
  "/console/enterprise",
  `/console/keys?search=${"z".repeat(2_000 - "/console/keys?search=".length)}`,
];
/** Anybody can send these, in a link or in the hidden field of the form. */
const OTHERS = [
  "",
  "/",
  "/admin/v1/keys",
  "/consolevil",
  "/console",
  "console/keys",
  "//evil.example",
  "//evil.example/console/keys",
  "///evil.example/console/keys",
  "/\\evil.example",
  "\\\\evil.example\\console\\keys",
  "/console/\\evil.example",
  "/console\\keys",
  "/console/../admin/v1/keys",
  "/console/..//evil.example",
  "/console/./keys",
  "/console/%2e%2e/x",
  "/console/.%2E/x",
  "/console/..%2fx",
  "/console/%5cevil",
  "/console/keys%0d%0aSet-Cookie: a=b",
  "/console/keys\r\nLocation: https://evil.example",
  "/console/ke\tys",
  "/\t/evil.example",
  " /console/keys",
  "/console/keys ",
  "/console/keys\0",
  "/console/keys?search=ä",
  "/console/@evil.example:80",
  "https://evil.example/console/keys",
  "http://console.invalid/console/keys",
  "http:/console/keys",
  "javascript:alert(1)",
  "data:text/html,<script>alert(1)</script>",
  "/console/enter",
  "/console/enter?to=/console/keys",
  "/console/enter/provider",
  "/console/enter#0123456789abcdef0123456789abcdef",
  "/console/keys#a b",
  `/console/keys?search=svc_live_${"0".repeat(48)}`,
  "/console/callback?code=1",
  "/console/logout",
  "/console/assets/style.css",
  "/console/%65nter",
  `/console/keys?search=${"z".repeat(2_001 - "/console/keys?search=".length)}`,
];

describe("wayBackOf()", () => {
  test("returns the address of a page as it is", () => {
    expect(PAGES.map(wayBackOf)).toEqual(PAGES);
  });

  test.each(OTHERS)("leads to the first page for %j", (text) => {
    expect(wayBackOf(text)).toBe("/console/");
  });
});

describe("A login", () => {
  test("leads to the page that asked for it, with its query, also without an earlier session", async () => {
    const page = "/console/keys?state=active&search=%22ada%22";
    const { cookie } = await client.logIn();
    admin.clock.advance(HOUR_MS);
    expect((await client.send("/keys?state=active&search=%22ada%22", { cookie })).location).toBe(enter(page));
    const asked = await client.send("/keys?state=active&search=%22ada%22");
    expect(asked.location).toBe(enter(page).replace("ended&", ""));
    const { text } = await client.send(enter(page).replace("/console", ""));
    expect(text).toContain("Your session has ended: log in again.");
    expect(text).toContain(`name="to" value="${page.replace("&", "&amp;")}"`);
    const wrong = await client.send("/enter", { form: { code: "0".repeat(32), to: page } });
    expect(wrong.text).toContain(`name="to" value="${page.replace("&", "&amp;")}"`);
    const code = await client.newCode("root");
    expect((await client.send("/enter", { form: { code, to: page } })).location).toBe(page);
  });

  test("leads to the page of the form that was sent without a session, but to no page of another origin", async () => {
    const { cookie } = await client.logIn();
    admin.clock.advance(HOUR_MS);
    for (const [referer, location] of [
      [
        `${admin.url}/console/keys/issue?email=a%40b.example`,
        enter("/console/keys/issue?email=a%40b.example"),
      ],
      [`${admin.url}/console/enter`, enter("/console/")],
      [`${admin.url}/admin/v1/keys`, enter("/console/")],
      ["https://evil.example/console/keys", enter("/console/")],
      ["no address", enter("/console/")],
      [undefined, enter("/console/")],
    ] as const) {
      const headers: Record<string, string> = referer === undefined ? {} : { referer };
      const sent = await client.send("/keys/issue", { cookie, form: {}, headers });
      expect([referer, sent.location]).toEqual([referer, location]);
    }
  });

  test("never leads to an address that somebody made up", async () => {
    for (const to of OTHERS) {
      const { text } = await client.send(`/enter?to=${encodeURIComponent(to)}`);
      expect(text).toContain('name="to" value="/console/"');
    }
    for (const to of [
      "//evil.example",
      "https://evil.example/console/",
      "/console/../x",
      "/\\evil.example",
    ]) {
      const code = await client.newCode("root");
      expect((await client.send("/enter", { form: { code, to } })).location).toBe("/console/");
    }
  });
});

test("the address of a form that was refused leads to the page with the open form", async () => {
  const { name, cookie } = await client.logIn();
  const form = `/access/operators/${name}/role`;
  expect((await client.send(form, { cookie, form: { role: "emperor" } })).status).toBe(400);
  expect((await client.send(form, { cookie })).location).toBe(
    `/console/access/operators/${name}?open=role#role-form`,
  );
  for (const [path, status] of [
    ["/logout", 405],
    [`/access/sessions/ses_${"0".repeat(32)}/end`, 405],
    [`/access/operators/${name}/nothing`, 404],
  ] as const)
    expect([path, (await client.send(path, { cookie })).status]).toEqual([path, status]);
});

test("a page that needs a fresh login says so", async () => {
  const { text } = await client.send(`/enter?fresh=1&to=${encodeURIComponent("/console/access")}`);
  expect(text).toContain("This needs a login of the last five minutes.");
  expect(text).toContain('name="to" value="/console/access"');
  expect(text).toContain("The command claviger operators login NAME prints it");
  const { cookie } = await client.logIn("admin", "mia");
  const { text: again } = await client.send("/enter?fresh=1", { cookie });
  expect(again).toContain("The command claviger operators login mia prints it");
});
