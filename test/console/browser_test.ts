/** A visit in a real Chromium fails if the page has a fault; each page here is built to have one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, openBrowser, takeScreenshots, type Visit } from "./support/browser.ts";
import { findChromium } from "./support/chromium.ts";

const STYLE = `p { color: rgb(1, 1, 1) }
  @media (prefers-color-scheme: dark) { p { color: rgb(2, 2, 2) } }
  @media (max-width: 400px) { p { color: rgb(3, 3, 3) } }`;
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' *.test 127.0.0.2:*";

/** The pages, by path. `other` is the origin of a second server, `outside` that of a third, at another address. */
const pages = (other: string, outside: string): Readonly<Record<string, string>> => ({
  "/quiet": `<p>Quiet</p><script src="/answer.js"></script>`,
  "/console_error": `<p>Loud</p><script src="/console_error.js"></script>`,
  "/missing_file": `<p>Incomplete</p><script src="/absent.js"></script>`,
  "/page_error": `<p>Broken</p><script src="/page_error.js"></script>`,
  "/late_error": `<p>Broken later</p><script src="/late_error.js"></script>`,
  "/inline_script": "<p>Inline</p><script>document.title = 'ran'</script>",
  "/external_address": `<p>Outside</p><img src="${outside}/x.png" alt="">`,
  "/external_name": `<p>Outside</p><img src="http://outside.test/x.png" alt="">`,
  "/other_port": `<p>Elsewhere</p><form method="post" action="${other}/quiet"><button>Go</button></form>`,
});
const FILES: Readonly<Record<string, string>> = {
  "/style.css": STYLE,
  "/answer.js": `document.querySelector("p").textContent = "Answered"`,
  "/console_error.js": `console.error("the page complains")`,
  "/page_error.js": `throw new Error("the page breaks")`,
  "/late_error.js": `fetch("/held").then(() => { throw new Error("the page breaks late") })`,
};

let browser: Browser;
let server: ReturnType<typeof Bun.serve>;
let other: ReturnType<typeof Bun.serve>;
let outside: ReturnType<typeof Bun.serve>;

function file(path: string): Response {
  const type = path.endsWith(".css") ? "text/css" : "text/javascript";
  return new Response(FILES[path], {
    status: path in FILES ? 200 : 404,
    headers: { "Content-Type": type },
  });
}

function serve(pagesByPath: Readonly<Record<string, string>>) {
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const { pathname } = new URL(request.url);
      if (pathname === "/held") return held.promise.then(() => new Response("Late"));
      const page = pagesByPath[pathname];
      if (page === undefined) return file(pathname);
      const html = `<!doctype html><link rel="stylesheet" href="/style.css">${page}`;
      return new Response(html, { headers: { "Content-Type": "text/html", "Content-Security-Policy": CSP } });
    },
  });
}
let outsideRequests = 0;
/** Lets the server answer `/held`. */
const held = Promise.withResolvers<void>();

beforeAll(async () => {
  browser = await openBrowser({ hostRules: "MAP evil.test 127.0.0.1" });
  other = serve({ "/quiet": "<p>Arrived</p>" });
  outside = Bun.serve({
    port: 0,
    hostname: "127.0.0.2",
    fetch: () => new Response(String(++outsideRequests)),
  });
  server = serve(pages(other.url.origin, outside.url.origin));
});
afterAll(async () => {
  await browser?.close();
  await Promise.all([server, other, outside].map((one) => one?.stop(true)));
});

/** Visits a page of the server until its text is there. */
const visit = (path: string, options: Partial<Visit> = {}) =>
  browser.visit({ url: `${server.url.origin}${path}`, ...options }, (page) =>
    page.locator("p").textContent(),
  );
/** Visits a page that has faults; returns them. */
const faultsOf = (path: string, options: Partial<Visit> = {}) =>
  visit(path, options).then(
    () => "none",
    (error: Error) => error.message,
  );

describe("visit()", () => {
  test("accepts a page without faults, and shows its text in a font", async () => {
    expect(await visit("/quiet")).toBe("Answered");
    const box = await browser.visit({ url: `${server.url.origin}/quiet` }, (page) =>
      page.locator("p").boundingBox(),
    );
    expect(box?.height, "no text without a font: install one, such as fonts-dejavu").toBeGreaterThan(10);
  });

  test("refuses an error on the console", async () => {
    expect(await faultsOf("/console_error")).toContain("console error: the page complains");
    expect(await faultsOf("/missing_file")).toContain("status of 404");
  });

  test("refuses an uncaught error, also one that follows the answer to the last request", async () => {
    expect(await faultsOf("/page_error")).toContain("page error: Error: the page breaks");
    const late = browser.visit({ url: `${server.url.origin}/late_error` }, async () => held.resolve());
    expect(await late.catch((error: Error) => error.message)).toContain("Error: the page breaks late");
  });

  test("refuses a violation of the policy, by the message and by the event", async () => {
    const faults = await faultsOf("/inline_script");
    expect(faults).toContain("console error: securitypolicyviolation: script-src-elem inline");
    expect(faults).toMatch(/console error: (?!securitypolicyviolation).*Content Security Policy/);
  });

  test("refuses a request to another address, name or port, and no request leaves this machine", async () => {
    expect(await faultsOf("/external_address")).toContain(`external request: ${outside.url.origin}/x.png`);
    expect(outsideRequests).toBe(0);
    expect(await faultsOf("/external_name")).toContain("external request: http://outside.test/x.png");
    const go = (options: Partial<Visit>) =>
      browser.visit({ url: `${server.url.origin}/other_port`, ...options }, async (page) => {
        await page.getByRole("button").click();
        await page.getByText("Arrived").waitFor();
      });
    const refused = await go({}).catch((error: Error) => error.message);
    expect(refused).toContain(`external request: ${other.url.origin}/quiet`);
    await go({ otherOrigins: [other.url.origin] });
  });

  test("refuses a page without an expected fault, and accepts one with it", async () => {
    await visit("/console_error", { expectedFaults: [/the page complains/] });
    expect(await faultsOf("/quiet", { expectedFaults: [/the page complains/] })).toContain(
      "missing: /the page complains/",
    );
  });

  test("adds the page's faults to the error of a wait that times out", async () => {
    const waiting = browser.visit({ url: `${server.url.origin}/console_error` }, (page) =>
      page.getByText("Never").waitFor({ timeout: 1 }),
    );
    expect(await waiting.catch((error: Error) => error.message)).toMatch(
      /Timeout 1ms[\s\S]*the page complains/,
    );
  });

  test("has scripts off, dark colors and a narrow window if asked", async () => {
    expect(await visit("/quiet", { script: false })).toBe("Quiet");
    const color = (options: Partial<Visit>) =>
      browser.visit({ url: `${server.url.origin}/quiet`, ...options }, (page) =>
        page.evaluate('getComputedStyle(document.querySelector("p")).color'),
      );
    expect(await color({})).toBe("rgb(1, 1, 1)");
    expect(await color({ colorScheme: "dark" })).toBe("rgb(2, 2, 2)");
    expect(await color({ colorScheme: "dark", width: 375 })).toBe("rgb(3, 3, 3)");
  });

  test("reaches a name that a host rule maps to this machine", async () => {
    expect(await visit("/quiet", { url: `http://evil.test:${server.port}/quiet` })).toBe("Answered");
  });
});

test("takeScreenshots() keeps a picture for each width and color scheme, and changes nothing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "claviger-screenshots-"));
  const color = await browser.visit(
    { url: `${server.url.origin}/quiet`, colorScheme: "dark" },
    async (page) => {
      await takeScreenshots(page, "quiet", folder);
      return page.evaluate('getComputedStyle(document.querySelector("p")).color');
    },
  );
  expect(readdirSync(folder).sort()).toEqual(
    ["1280-dark", "1280-light", "375-dark", "375-light"].map((look) => `quiet-${look}.png`),
  );
  expect(color).toBe("rgb(2, 2, 2)");
  rmSync(folder, { recursive: true });
});

describe("findChromium()", () => {
  const folder = mkdtempSync(join(tmpdir(), "claviger-chromium-"));
  const place = async (path: string, content: string) => {
    await Bun.write(join(folder, path), content);
    chmodSync(join(folder, path), 0o755);
    return join(folder, path);
  };
  afterAll(() => rmSync(folder, { recursive: true }));
  const message = (env: Record<string, string>, platform = "linux-arm64") =>
    findChromium({ env, platform }).then(
      ({ path }) => path,
      (error: Error) => error.message,
    );

  test("takes the program that CHROMIUM names, or that Debian's script of that name starts", async () => {
    const program = await place("lib/chromium/chromium", "\x7fELF");
    const script = await place("bin/chromium", "#!/bin/sh\n");
    const other = await place("bin/other", "#!/bin/sh\n");
    expect(await message({ CHROMIUM: program }, "linux-x64")).toBe(program);
    expect(await message({ CHROMIUM: script }, "linux-x64")).toBe(program);
    expect(await message({ PATH: join(folder, "bin") })).toBe(program);
    expect(await message({ CHROMIUM: other })).toContain(`${other} is a script. Set CHROMIUM to`);
  });

  test("says what to install if there is none", async () => {
    expect(await message({ PATH: "" })).toBe(
      "Cannot test the console: there is no Chromium for linux-arm64. Install Chromium (on Debian the package " +
        "chromium-headless-shell), then run make test-console CHROMIUM=path",
    );
    expect(await message({ CHROMIUM: "/absent" })).toContain("CHROMIUM names /absent, which does not exist");
  });
});
