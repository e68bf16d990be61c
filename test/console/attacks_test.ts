/** Tests that a foreign page in the browser of an operator can do nothing. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Page } from "playwright-core";
import { useForAll } from "../support/use.ts";
import { FOREIGN_HOST, startConsole } from "./support/console.ts";

const admin = useForAll(startConsole);
/** A server of someone else on the same machine: for browsers it has the same site as the console. */
let foreign: ReturnType<typeof Bun.serve>;
beforeAll(() => {
  const forms = {
    "/issue": `<form method="post" action="${admin.url}/console/keys/issue"><input name="email" value="eve@example.org">
      <input name="tier" value="enterprise"><input name="mode" value="live"><input name="never" value="yes">`,
    "/logout": `<form method="post" action="${admin.url}/console/logout">`,
    "/enter": `<form method="post" action="${admin.url}/console/enter"><input name="code" value="00">`,
  };
  foreign = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const form = Object.entries(forms).find(([path]) => path === new URL(request.url).pathname)?.[1];
      const headers = { "Content-Type": "text/html" };
      return new Response(`<!doctype html>${form}<button>Free prizes</button></form>`, { headers });
    },
  });
});
afterAll(() => foreign?.stop(true));

const keys = async () =>
  (await admin.database.query<{ n: number }>((sql) => sql`select count(*)::int as n from keys`))[0]?.n;

for (const host of ["127.0.0.1", FOREIGN_HOST]) {
  test(`A form of ${host} at another port is refused, and changes nothing`, async () => {
    const origin = `http://${host}:${foreign.port}`;
    const visit = { path: "/keys", otherOrigins: [origin], expectedFaults: [/status of 403/] };
    await admin.visitAs("admin", visit, async (page: Page) => {
      for (const path of ["/issue", "/logout", "/enter"]) {
        await page.goto(origin + path);
        const [request] = await Promise.all([
          page.waitForRequest((sent) => sent.method() === "POST"),
          page.getByRole("button", { name: "Free prizes" }).click(),
        ]);
        await page.getByText("A page of another website sent this request").waitFor();
        expect((await request.allHeaders()).origin).toBe(origin);
      }
      await page.goto(`${admin.url}/console/keys`);
      await page.getByRole("heading", { name: "Keys" }).waitFor();
    });
    expect(await keys()).toBe(0);
  });
}

test("A foreign name that leads to the console is refused before anything is shown (DNS rebinding)", async () => {
  const { port } = new URL(admin.url);
  for (const path of ["/console/enter", "/console/keys", "/"]) {
    const visit = { url: `http://${FOREIGN_HOST}:${port}${path}`, expectedFaults: [/status of 421/] };
    const text = await admin.browser.visit(visit, (page) => page.locator("body").textContent());
    expect(JSON.parse(text ?? "").code).toBe("MISDIRECTED_REQUEST");
  }
});

test("A foreign page can neither frame the console nor read it", async () => {
  const visit = {
    url: `http://${FOREIGN_HOST}:${foreign.port}/`,
    otherOrigins: [admin.url],
    expectedFaults: [/frame-ancestors|Framing/, /ERR_FAILED|blocked by CORS/],
  };
  await admin.browser.visit(visit, async (page) => {
    const read = `fetch("${admin.url}/console/enter", { credentials: "include" }).then(() => "read", () => "refused")`;
    expect(await page.evaluate(read)).toBe("refused");
    const framed = page.waitForEvent("console", (message) => /frame-ancestors|Framing/.test(message.text()));
    await page.evaluate(`document.body.innerHTML = '<iframe src="${admin.url}/console/enter"></iframe>'; 0`);
    await framed;
  });
});
