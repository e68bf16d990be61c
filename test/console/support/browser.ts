/**
 * A real Chromium for tests of the console. A visit fails if the page has a fault: an error on its console, an
 * uncaught error, a violation of its content security policy, or a request to another origin.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  type BrowserContext,
  type Browser as Chromium,
  chromium,
  type Page,
  type Request,
} from "playwright-core";
import { until } from "../../support/until.ts";
import { findChromium } from "./chromium.ts";

export interface Browser {
  /** Opens the page for a new visitor, who has no other cookies than the given ones, runs `act` on it, and throws if it had a fault. */
  visit<Result>(visit: Visit, act: (page: Page) => Promise<Result>): Promise<Result>;
  close(): Promise<void>;
}

export interface BrowserOptions {
  /** Rules of `--host-resolver-rules`, such as `MAP evil.test 127.0.0.1`. Any other name is unknown to the browser. */
  readonly hostRules?: string;
}

export interface Visit {
  /** The page to begin with. A request to another origin is a fault. */
  readonly url: string;
  /** Origins, other than that of `url`, to which the page may send requests. */
  readonly otherOrigins?: readonly string[];
  /** Faults that must occur, as when the server is to refuse a request. */
  readonly expectedFaults?: readonly RegExp[];
  readonly cookies?: Parameters<BrowserContext["addCookies"]>[0];
  /** Whether scripts run; by default true. */
  readonly script?: boolean;
  readonly colorScheme?: "light" | "dark";
  /** The width of the window in pixels; by default 1280. */
  readonly width?: number;
}

const HEIGHT = 800;
/** A page that waits for something longer than this will not get it. */
const WAIT_LIMIT_MS = 10_000;

/** The browser looks up no name and connects to nothing outside this machine, whatever a page asks for. */
const NO_OTHER_HOSTS = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE [::1], EXCLUDE localhost";

const REPORT_VIOLATIONS = `addEventListener("securitypolicyviolation", (event) => {
  console.error("securitypolicyviolation: " + event.effectiveDirective + " " + event.blockedURI);
})`;

/** Starts a Chromium without a window. */
export async function openBrowser({ hostRules }: BrowserOptions = {}): Promise<Browser> {
  const { path, env } = await findChromium();
  const rules = hostRules === undefined ? NO_OTHER_HOSTS : `${hostRules}, ${NO_OTHER_HOSTS}`;
  const browser = await chromium.launch({
    executablePath: path,
    // Its sandbox does not work for root, nor in many containers. It opens only pages of this checkout.
    chromiumSandbox: false,
    args: [`--host-resolver-rules=${rules}`],
    env: { ...process.env, ...env },
  });
  return {
    visit: (visit, act) => visitPage(browser, visit, act),
    close: () => browser.close(),
  };
}

async function visitPage<Result>(
  browser: Chromium,
  visit: Visit,
  act: (page: Page) => Promise<Result>,
): Promise<Result> {
  const { script = true, colorScheme = "light", width = 1280, expectedFaults = [] } = visit;
  const viewport = { width, height: HEIGHT };
  const context = await browser.newContext({ javaScriptEnabled: script, colorScheme, viewport });
  try {
    context.setDefaultTimeout(WAIT_LIMIT_MS);
    await context.addInitScript(REPORT_VIOLATIONS);
    await context.addCookies(visit.cookies ?? []);
    const faults = collectFaults(context, [new URL(visit.url).origin, ...(visit.otherOrigins ?? [])]);
    const pending = collectPending(context);
    const page = await context.newPage();
    await page.goto(visit.url);
    const result = await act(page).catch((error: Error) => {
      error.message += faults.map((fault) => `\nBefore, the page had a fault: ${fault}`).join("");
      throw error;
    });
    await settle(context, pending);
    refuseFaults(faults, expectedFaults);
    return result;
  } finally {
    await context.close();
  }
}

function collectFaults(context: BrowserContext, origins: readonly string[]): readonly string[] {
  const faults: string[] = [];
  const isExternal = (url: string) => {
    const { protocol, origin } = new URL(url.replace(/^ws/, "http"));
    return protocol.startsWith("http") && !origins.includes(origin);
  };
  context.on("console", (message) => {
    if (message.type() === "error") faults.push(`console error: ${message.text()} ${message.location().url}`);
  });
  context.on("weberror", (error) => faults.push(`page error: ${error.error()}`));
  context.on("request", (request) => {
    if (isExternal(request.url())) faults.push(`external request: ${request.url()}`);
  });
  context.on("page", (page) =>
    page.on("websocket", (socket) => {
      if (isExternal(socket.url())) faults.push(`external request: ${socket.url()}`);
    }),
  );
  return faults;
}

/** Waits until every request has its answer and the events of the pages so far have arrived. */
async function settle(context: BrowserContext, pending: ReadonlySet<Request>): Promise<void> {
  await until(() => pending.size === 0, { what: "the end of every request of the page" });
  // The answer to this arrives after the events.
  for (const page of context.pages()) await page.evaluate("0");
}

function collectPending(context: BrowserContext): ReadonlySet<Request> {
  const pending = new Set<Request>();
  context.on("request", (request) => pending.add(request));
  context.on("requestfinished", (request) => pending.delete(request));
  context.on("requestfailed", (request) => pending.delete(request));
  return pending;
}

function refuseFaults(faults: readonly string[], expected: readonly RegExp[]): void {
  const unexpected = faults.filter((fault) => !expected.some((pattern) => pattern.test(fault)));
  const missing = expected.filter((pattern) => !faults.some((fault) => pattern.test(fault)));
  const lines = [...unexpected, ...missing.map((pattern) => `missing: ${pattern}`)];
  if (lines.length > 0) throw new Error(`The page had faults:\n${lines.join("\n")}`);
}

/** The widths and color schemes in which people look at a page. */
const LOOKS = [375, 1280].flatMap((width) =>
  (["light", "dark"] as const).map((colorScheme) => ({ width, colorScheme })),
);

/**
 * Takes pictures of the page, for looking at: `NAME-375-light.png` and so on, in the folder that the environment names
 * in SCREENSHOTS. Without one it does nothing.
 */
export async function takeScreenshots(
  page: Page,
  name: string,
  folder = process.env.SCREENSHOTS,
): Promise<void> {
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  const size = page.viewportSize();
  const isDark = await page.evaluate('matchMedia("(prefers-color-scheme: dark)").matches');
  for (const { width, colorScheme } of LOOKS) {
    await page.setViewportSize({ width, height: HEIGHT });
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: isDark ? "dark" : "light" });
  if (size !== null) await page.setViewportSize(size);
}
