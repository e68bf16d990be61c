/**
 * Tests the manual inside the executable: every page is there, its links have targets, and it fits a
 * terminal.
 */
import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { lexer, type Token } from "marked";
import type { ClientCode, Code } from "../../src/base/refusal.ts";
import { PAGES } from "../../src/cli/guide/pages.ts";
import { renderGuidePage } from "../../src/cli/guide/render_guide_page.ts";
import { leavesOf, writeCommandsPage, writeSettingsPage } from "../../src/cli/guide/write_tables.ts";
import { createProgram } from "../../src/cli/program.ts";
import { USUAL_MESSAGE } from "../../src/licensing/keys/mod.ts";
import { PRESET_NAMES, PRESETS, ROLE_MEANINGS, ROLES, type Role } from "../../src/operators/mod.ts";
import { statusOf, toWireCode } from "../../src/wire/mod.ts";
import { createCommandLine, createTestInvocation, type RunOptions } from "./command_line.ts";

const folder = join(import.meta.dir, "../../src/cli/guide");
const program = createProgram(createTestInvocation("/", {}).invocation);
const names = PAGES.map(({ name }) => name);

describe("the pages of the guide", () => {
  test("are the files of the folder", () => {
    const files = readdirSync(folder).filter((name) => name.endsWith(".md"));
    expect(names.map((name) => `${name}.md`).toSorted()).toEqual(files.toSorted());
    for (const { name, text } of PAGES) expect(text).toBe(readFileSync(join(folder, `${name}.md`), "utf8"));
  });

  test("equal the output of `make guide` if they come from tables", () => {
    expect(textOf("settings")).toBe(writeSettingsPage());
    expect(textOf("commands")).toBe(writeCommandsPage(program));
  });

  test("have each preset of a token with its sentence and its scopes", () => {
    const rows = PRESET_NAMES.map((name) => {
      const { meaning, scopes } = PRESETS[name];
      return `| \`${name}\` | ${meaning} | ${scopes.map((scope) => `\`${scope}\``).join(", ")} |`;
    });
    expect(textOf("operators")).toContain(rows.join("\n"));
  });

  test("say what each role may do as the console does", () => {
    const rowOf = (role: Role) => `| \`${role}\` | ${ROLE_MEANINGS[role]} |`;
    expect(textOf("operators")).toContain(ROLES.map(rowOf).join("\n"));
    // This page says more of viewers and admins.
    expect(textOf("console")).toContain(rowOf("editor"));
  });

  test("have the usual message for a customer", () => {
    expect(textOf("console")).toContain(`\`\`\`text\n${USUAL_MESSAGE}\n\`\`\``);
  });

  test("start with a title, and then say what the reader will achieve", () => {
    for (const { name, text } of PAGES) {
      const [title, first] = lexer(text).filter(({ type }) => type !== "space" && type !== "html");
      expect({ name, title: title?.type, first: first?.type }).toEqual({
        name,
        title: "heading",
        first: "paragraph",
      });
    }
  });

  test("link to pages and headings that exist", () => {
    const broken = PAGES.flatMap(({ name, text }) =>
      linksOf(lexer(text))
        .filter((href) => !/^https?:/.test(href))
        .filter((href) => {
          const [, page = "", anchor] = /^(?:([a-z-]+)\.md)?(?:#(.+))?$/.exec(href) ?? [];
          const target = textOf(page === "" ? name : page);
          return target === undefined || (anchor !== undefined && !anchorsOf(target).includes(anchor));
        })
        .map((href) => `${name}: ${href}`),
    );
    expect(broken).toEqual([]);
  });

  test("show every command", () => {
    const commands = leavesOf(program).map(({ path }) => path);
    const blocks = PAGES.filter(({ name }) => name !== "commands").flatMap(({ text }) => [
      ...text.matchAll(/^```.*?^```$/gms),
    ]);
    const shown = blocks.map(([block]) => block).join("\n");
    expect(commands.filter((path) => !new RegExp(`\\b${path}\\b`).test(shown))).toEqual([]);
  });

  test("have no command with sudo, which not every host has: root has runuser", () => {
    const blocks = PAGES.flatMap(({ name, text }) =>
      [...text.matchAll(/^ *```.*?^ *```$/gms)].map(([block]) => ({ name, block })),
    );
    expect(blocks.filter(({ block }) => /\bsudo\b/.test(block))).toEqual([]);
  });

  test("list every code of the interface under its status", () => {
    const rows = [...(textOf("http") ?? "").matchAll(/^\| (\d{3}) \| (.*) \|$/gm)];
    const shown = rows.flatMap(([, status, cell = ""]) =>
      [...cell.matchAll(/`([A-Z]{3,}(?:_[A-Z]+)+)`/g)].map(([, code]) => [code, Number(status)] as const),
    );
    for (const [code, status] of shown) {
      // The one code that has two statuses.
      const ofOurs = status === 422 ? "CLAIM_MISMATCH" : (code as Code);
      expect([code, toWireCode(ofOurs), statusOf(ofOurs)]).toEqual([code, code as Code, status]);
    }
    expect(new Set(shown.map(([code]) => code))).toEqual(new Set(CODES));
  });

  test("can be found from `claviger guide` in two steps", async () => {
    const { out } = await run(["guide"]);
    for (const name of names) expect(out).toMatch(new RegExp(`^\`${name}\` +\\S`, "m"));
  });

  for (const columns of [80, 60]) {
    test(`fit a terminal of ${columns} columns, except code`, () => {
      for (const { name, text } of PAGES) {
        const lines = renderGuidePage(text, columns).split("\n");
        const wide = lines.filter((line) => line.length > columns && !line.startsWith("    "));
        expect({ name, wide: wide.filter((line) => line.trim().includes(" ")) }).toEqual({ name, wide: [] });
      }
    });
  }
});

describe("claviger guide PAGE", () => {
  test("prints plain text, with commands in place of links", async () => {
    const { out, status } = await run(["guide", "backups"]);
    expect(status).toBe(0);
    expect(out).toStartWith("# Backups\n");
    expect(out).toBe(stripVTControlCharacters(out));
    expect(out).not.toContain(".md");
  });

  test("shows the same text in the pager at a terminal", async () => {
    using line = createCommandLine();
    const shown = join(line.folder, "shown");
    for (const name of ["less", "more"]) {
      writeFileSync(join(line.folder, name), `#!/bin/sh\ncat > ${shown}\necho ${name} >> ${shown}\n`, {
        mode: 0o755,
      });
    }
    const { out } = await run(["guide", "backups"]);
    for (const [PAGER, name] of [
      [undefined, "less"],
      ["more", "more"],
      [`${line.folder}/less -R`, "less"],
    ] as const) {
      const ended = await line.run(["guide", "backups"], {
        columns: 80,
        env: { PATH: `${line.folder}:${PATH.PATH}`, ...(PAGER && { PAGER }) },
      });
      expect(ended).toEqual({ status: 0, out: "", err: "" });
      expect(readFileSync(shown, "utf8")).toBe(`${out}${name}\n`);
    }
  });

  test("prints the page if there is no pager", async () => {
    const { out } = await run(["guide", "backups"], {
      columns: 80,
      env: { ...PATH, PAGER: "no-such-pager" },
    });
    expect(out).toStartWith("# Backups\n");
    const withoutShell = await run(["guide", "backups"], { columns: 80, env: { PATH: "/no-such-folder" } });
    expect(withoutShell.out).toBe(out);
  });

  test("lets the pager of root run no commands", async () => {
    using line = createCommandLine();
    const shown = join(line.folder, "shown");
    for (const isRoot of [false, true]) {
      const PAGER = `printf '%s\\n' "$LESSSECURE" >> ${shown}; cat > /dev/null`;
      await line.run(["guide", "backups"], { columns: 80, isRoot, env: { ...PATH, PAGER } });
    }
    expect(readFileSync(shown, "utf8")).toBe("\n1\n");
  });

  test("suggests the nearest page for a misspelt name", async () => {
    const { err, status } = await run(["guide", "bakcup"]);
    expect(status).toBe(2);
    expect(err).toEndWith(
      "Cannot find page bakcup; the nearest is backups; `claviger guide` lists the pages\n",
    );
    const other = await run(["guide", "zzzzzz"]);
    expect(other.status).toBe(2);
    expect(other.err).toEndWith("Cannot find page zzzzzz; `claviger guide` lists the pages\n");
  });

  test("shows one setting by its name", async () => {
    const { out } = await run(["guide", "CLAVIGER_PORT"]);
    expect(out).toStartWith("### CLAVIGER_PORT\n");
    expect(out).toContain("8080");
    expect(out).not.toContain("CLAVIGER_HOST");
  });
});

describe("renderGuidePage()", () => {
  const plain = (text: string, columns = 40) => renderGuidePage(text, columns);

  test("keeps the marks of headings, which a search finds", () => {
    expect(plain("# Keys\n\n## Call `keys list`\n\n**All** *of* them.\n")).toBe(
      "# Keys\n\n## Call keys list\n\nAll of them.\n",
    );
  });

  test("turns links to pages into commands", () => {
    expect(plain("See [a restore](backups.md#restore).", 80)).toBe(
      "See a restore (`claviger guide backups`).\n",
    );
    expect(plain("See [below](#below) and [Hono](https://hono.dev).", 80)).toBe(
      "See below and Hono (https://hono.dev).\n",
    );
  });

  test("never breaks a line within code", () => {
    expect(plain("Call `claviger keys list --json` here, or there, or elsewhere")).toBe(
      "Call `claviger keys list --json` here,\nor there, or elsewhere\n",
    );
  });

  test("wraps the cells of a table that is too wide", () => {
    expect(plain("| A | B |\n|---|---|\n| one | many words that need a second line |\n")).toBe(
      "A    B\n---  ----------------------------------\none  many words that need a second line\n",
    );
    expect(plain("| A | B |\n|---|---|\n| one | many words that surely need a second line |\n")).toBe(
      `A    B\n---  ${"-".repeat(35)}\none  many words that surely need a\n     second line\n`,
    );
  });

  test("shows each row as a list if the table's columns would be too narrow", () => {
    const table = `| Name | Default | Meaning |\n|---|---|---|\n| \`${"N".repeat(30)}\` | 1 | what it means |\n`;
    expect(plain(table)).toBe(`\`${"N".repeat(30)}\`\n    Default: 1\n    Meaning: what it means\n`);
  });

  test("refuses a block that it cannot render", () => {
    expect(() => plain("> a quotation")).toThrow("blockquote");
  });
});

describe("claviger guide --man", () => {
  const man = Bun.which("man");
  test.skipIf(man === null)("prints a page that man reads without a warning", async () => {
    const { out } = await run(["guide", "--man"]);
    const page = spawnSync("man", ["--warnings=w", "-l", "-"], {
      input: out,
      encoding: "utf8",
      env: { ...PATH, MANWIDTH: "80", LC_ALL: "C.UTF-8" },
    });
    expect(page.stderr).toBe("");
    expect(page.stdout).toContain("claviger keys issue [options]");
    expect(page.stdout).toContain("CLAVIGER_PORT");
  });
  if (man === null) console.warn("No `man` on this machine: its page is not tried");
});

/** A record type, so that the compiler demands every code. */
const CODES = Object.keys({
  MISSING_KEY: 0,
  INVALID_FORMAT: 0,
  MISSING_EVENT_TYPE: 0,
  INVALID_KEY: 0,
  KEY_EXPIRED: 0,
  KEY_NOT_FOUND: 0,
  MACHINE_LIMIT_REACHED: 0,
  MACHINE_NOT_FOUND: 0,
  RELEASE_LIMIT_REACHED: 0,
  METHOD_NOT_ALLOWED: 0,
  QUOTA_EXCEEDED: 0,
  RATE_LIMIT_EXCEEDED: 0,
  SERVER_ERROR: 0,
  NOT_CONFIGURED: 0,
  INVALID_REQUEST: 0,
  INVALID_LINK: 0,
  LICENSE_REQUIRED: 0,
  NOT_FOUND: 0,
  OFFLINE_NOT_ALLOWED: 0,
  PRECONDITION_FAILED: 0,
  PAYLOAD_TOO_LARGE: 0,
  RANGE_NOT_SATISFIABLE: 0,
  EXPECTATION_FAILED: 0,
  UNSUPPORTED_MEDIA_TYPE: 0,
  SERVICE_UNAVAILABLE: 0,
} satisfies Record<Exclude<ClientCode, "CLAIM_MISMATCH">, 0>);

const PATH = { PATH: process.env.PATH ?? "" };

function textOf(name: string): string | undefined {
  return PAGES.find((page) => page.name === name)?.text;
}

async function run(args: readonly string[], options: RunOptions = {}) {
  using line = createCommandLine();
  return await line.run(args, options);
}

function linksOf(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token): string[] => {
    const cells = token.type === "table" ? [...token.header, ...token.rows.flat()] : [];
    const inner = [
      ...("tokens" in token ? (token.tokens ?? []) : []),
      ...("items" in token ? token.items : []),
      ...cells,
    ];
    return [...(token.type === "link" ? [token.href] : []), ...linksOf(inner)];
  });
}

/** Returns the anchors of a page's headings, as GitHub makes them. */
function anchorsOf(text: string): string[] {
  return lexer(text)
    .filter(({ type }) => type === "heading")
    .map((token) =>
      ("text" in token ? String(token.text) : "")
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
        .replaceAll(" ", "-"),
    );
}
