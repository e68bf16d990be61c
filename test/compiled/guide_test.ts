/** Runs each guide page's console blocks with the executable, each page in a new folder after its prelude. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { PAGES } from "../../src/cli/guide/pages.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { until } from "../support/until.ts";
import { mask, readConsoleSteps, readme, runConsoleSteps } from "./console_blocks.ts";
import { createPlace, type Place } from "./executable.ts";
import { isBuilt } from "./installed.ts";

setDefaultTimeout(120_000);

/**
 * The data that a page starts with. `demo` is a service with the data of a demo. `customers` adds the results of the page
 * `first-key`: Grace has a key, and Ada has one, in `$KEY`, with one event. A page without console blocks needs no prelude.
 */
const PRELUDES: Readonly<Record<string, string>> = {
  demo: "",
  customers: `
    ./claviger keys issue --email grace@example.org --tier commercial --name Grace --monthly-limit 1000
    KEY=$(./claviger keys issue --email ada@example.org --tier research --json | sed -n 's/.*"api_key": "\\(.*\\)".*/\\1/p')
    curl -s http://127.0.0.1:8080/v1/analytics/log -d "{\\"api_key\\": \\"$KEY\\", \\"event_type\\": \\"inference\\"}"`,
};

const pages = [{ name: "README.md", text: readme, prelude: "demo" }, ...PAGES.map(toPage)].filter(
  ({ text }) => readConsoleSteps(text).length > 0,
);

function toPage({ name, text }: { readonly name: string; readonly text: string }) {
  const [, prelude = ""] = /^<!-- prelude: (\w+) -->$/m.exec(text) ?? [];
  return { name, text, prelude };
}

describe.skipIf(!isBuilt)("the commands of a page print what the page shows:", () => {
  let place: Place;
  beforeEach(() => {
    place = createPlace();
  });
  afterEach(() => place.remove());

  for (const { name, text, prelude } of pages) {
    test(name, async () => {
      const before = PRELUDES[prelude];
      if (before === undefined) throw new Error(`${name} names an unknown prelude: ${prelude}`);
      const [, shown] = /^```\n\$ \.\/claviger serve --demo\n(.*?)^```$/ms.exec(text) ?? [];
      const port = await findFreePort();
      const dataDir = `${place.folder}/claviger-data`;
      // Other pages show what `doctor` says without a listener for operators.
      const steps = readConsoleSteps(text);
      const isForOperators = steps.some(({ command }) => command.includes("127.0.0.1:8081"));
      const adminAddress = `127.0.0.1:${await findFreePort()}`;
      const { url, out } = await place.serve(dataDir, {
        args: [
          ...["--demo", "--port", String(port)],
          ...(isForOperators ? ["--admin-listen", adminAddress] : []),
        ],
        env: {
          CLAVIGER_PUBLIC_URL: `http://127.0.0.1:${port}`,
          // The other pages show an installation without the demo's console: it has none if a journal gets its output.
          ...(shown === undefined && { JOURNAL_STREAM: "8:12345" }),
        },
      });
      const printed = await until(() => /^To log in .*\n {2}.*\n/m.test(out()) && out());
      if (shown !== undefined) expect(mask(printed)).toStartWith(mask(shown.replace(/…\n$/, "")));

      const env = { PATH: "/usr/bin:/bin", CLAVIGER_DATA_DIR: dataDir };
      const outputs = await runConsoleSteps([{ command: before, output: "" }, ...steps], {
        cwd: place.folder,
        env,
        address: new URL(url).host,
        adminAddress,
      });
      for (const [index, { command, output }] of steps.entries()) {
        expect({ command, output: mask(outputs[index + 1] ?? "") }).toEqual({
          command,
          output: mask(output),
        });
      }
    });
  }
});
