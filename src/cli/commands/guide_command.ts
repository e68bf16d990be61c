/** `claviger guide`: the manual that comes with the executable. */
import { spawnSync } from "node:child_process";
import { findNearest, findSetting } from "../../installation/config/mod.ts";
import { command } from "../command.ts";
import alerts from "../guide/alerts.yml" with { type: "text" };
import dashboard from "../guide/grafana_dashboard.json" with { type: "json" };
import { findGuidePage, PAGES } from "../guide/pages.ts";
import { renderGuidePage } from "../guide/render_guide_page.ts";
import { renderManPage } from "../guide/render_man_page.ts";
import python from "../guide/sdk/claviger_client.py" with { type: "text" };
import shell from "../guide/sdk/claviger_client.sh" with { type: "text" };
// @ts-expect-error: as a text it has a default export, which it has not as a module.
import typescript from "../guide/sdk/claviger_client.ts" with { type: "text" };
import licenses from "../guide/sdk/license_vectors.json" with { type: "json" };
import ofModules from "../guide/sdk/vectors.json" with { type: "json" };
import type { Invocation } from "../invocation.ts";
import { flag, option } from "../parameter.ts";
import { WrongUsage } from "../run.ts";

/** The clients that pages of the manual print. */
const MODULES = { python, typescript, shell } as const satisfies Readonly<Record<string, string>>;

/** The test vectors, by the names of their pages. */
const VECTORS: Readonly<Record<string, object>> = { offline: licenses, sdk: { ...ofModules, licenses } };

type ClientLanguage = keyof typeof MODULES;
const CLIENT_LANGUAGES = Object.keys(MODULES) as ClientLanguage[];

/** The width of text in a file or a pipe. */
const PLAIN_COLUMNS = 80;

export const guide = command({
  name: "guide",
  description: "read the manual; without a page, list the pages",
  arguments: { page: option("a page, or the name of a setting", pageArgument) },
  options: {
    man: flag("print a manual page for man(1)"),
    grafana: flag("print a dashboard for Grafana; only for the page monitoring", {
      conflicts: ["man", "alerts"],
    }),
    alerts: flag("print alert rules for Prometheus; only for the page monitoring", { conflicts: ["man"] }),
    client: option("print a client; only for the pages offline and sdk", CLIENT_LANGUAGES, {
      as: "language",
      conflicts: ["man", "grafana", "alerts"],
    }),
    vectors: flag("print test vectors for clients; only for the pages offline and sdk", {
      conflicts: ["man", "grafana", "alerts", "client"],
    }),
  },
  run({ page, man, grafana, alerts: isForAlerts, client, vectors: isForVectors }, { invocation, program }) {
    if (client !== undefined) {
      const text = printClient(page, client);
      if (text === undefined) throw new WrongUsage(NO_CLIENT);
      invocation.out(text);
    } else if (isForVectors) {
      const vectors = VECTORS[page ?? ""];
      if (vectors === undefined) throw new WrongUsage(NO_VECTORS);
      invocation.out(`${JSON.stringify(vectors, null, 2)}\n`);
    } else if (grafana || isForAlerts) {
      if (page !== "monitoring") throw new WrongUsage(WRONG_PAGE);
      invocation.out(grafana ? `${JSON.stringify(dashboard, null, 2)}\n` : alerts);
    } else if (man) invocation.out(renderManPage(program));
    else show(invocation, page === undefined ? LIST : textOf(page));
  },
});

const WRONG_PAGE = "Cannot print the file: --grafana and --alerts are options of `claviger guide monitoring`";

const NO_CLIENT =
  "Cannot print the client: --client is an option of `claviger guide offline` and `claviger guide sdk`";

const NO_VECTORS =
  "Cannot print the test vectors: --vectors is an option of `claviger guide offline` and `claviger guide sdk`";

/** The list of pages as a page. */
const LIST = `# Manual

\`claviger guide PAGE\` shows one page.

| Page | What you find there |
|---|---|
${PAGES.map(({ name, summary }) => `| \`${name}\` | ${summary} |`).join("\n")}
`;

function pageArgument(name: string): string {
  if (findGuidePage(name) !== undefined || findSetting(name) !== undefined) return name;
  const names = PAGES.map((page) => page.name);
  const nearest = findNearest(name.toLowerCase(), names);
  throw new WrongUsage(
    `Cannot find page ${name}${nearest === undefined ? "" : `; the nearest is ${nearest}`}; ` +
      "`claviger guide` lists the pages",
  );
}

/** Returns the text of a page, or the section of one setting. */
function textOf(name: string): string {
  const page = findGuidePage(name);
  if (page !== undefined) return page.text;
  const parts = findGuidePage("settings")?.text.split(/^(?=### )/m) ?? [];
  return parts.find((part) => part.startsWith(`### ${name}\n`)) ?? "";
}

/** Shows a text page by page on a terminal; elsewhere prints it. */
function show({ columns, out, env, isRoot }: Invocation, markdown: string): void {
  const text = renderGuidePage(markdown, columns ?? PLAIN_COLUMNS);
  if (columns === undefined || !isPaged(text, { env, isRoot })) out(text);
}

/** Shows the text in a pager. Returns false if this host has no pager: the caller then prints the text. */
function isPaged(text: string, { env, isRoot }: Pick<Invocation, "env" | "isRoot">): boolean {
  const pager = env.PAGER ?? "less";
  if (pager === "" || pager === "cat") return false;
  // -F ends less when the text fits on the screen, -X leaves the text on the screen.
  const { status, signal } = spawnSync("sh", ["-c", pager], {
    input: text,
    stdio: ["pipe", "inherit", "ignore"],
    // less then runs no commands: otherwise a user who may run only this program by sudo would get a root shell.
    env: { LESS: "FX", ...env, ...(isRoot && { LESSSECURE: "1" }) },
  });
  // Both are null if this host has no sh.
  return signal !== null || (status !== null && status !== 126 && status !== 127);
}

/**
 * Returns the client of a page in a language; undefined if the page has no clients. One module does all in Python and in
 * TypeScript; in shell the check of signed licenses is a program of its own, on the page `offline`.
 */
function printClient(page: string | undefined, language: ClientLanguage): string | undefined {
  if (page === "sdk" || (page === "offline" && language !== "shell")) return MODULES[language];
  if (page !== "offline") return undefined;
  return /^```sh\n(.*?)^```$/ms.exec(findGuidePage(page)?.text ?? "")?.[1];
}
