/** The README against what it describes. Its console blocks are run by `compiled/readme_test.ts`. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import packageJson from "../package.json" with { type: "json" };
import { createProgram } from "../src/cli/program.ts";
import { SETTINGS } from "../src/config/settings.ts";
import { statusOf, toWireCode } from "../src/http/error_response.ts";
import type { Code } from "../src/refusal.ts";
import { surround } from "./cli/command_line.ts";
import { mask, readConsoleSteps, readme } from "./readme_console.ts";
import { readWalkSteps } from "./readme_walk.ts";

/** The rows of the table below a heading, by cells, without the two that head it. */
function rowsBelow(heading: string): string[][] {
  const section = readme.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const lines = section.split("\n").filter((line) => line.startsWith("| "));
  return lines.slice(1).map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

function leavesOf(command: Command, path: string): [string, Command][] {
  return command.commands.flatMap((child): [string, Command][] => {
    const name = `${path} ${child.name()}`;
    return child.commands.length > 0 ? leavesOf(child, name) : [[name, child]];
  });
}

test("README.md begins with the two commands", () => {
  const [, first = "", second = ""] = readme.split("\n");
  expect(first).toStartWith("make run ");
  expect(second).toStartWith("make test ");
});

test("README.md has every setting with its default, and no other", () => {
  const shown = rowsBelow("Settings").map(([name, standard, allowed, meaning]) => ({
    name: name?.replaceAll("`", ""),
    default: standard?.replaceAll("`", ""),
    allowed,
    meaning,
  }));
  expect(shown).toEqual([...SETTINGS]);
});

test("README.md has every command with its arguments and options, and no other", () => {
  const leaves = leavesOf(createProgram(surround("/", {}).surroundings), "claviger");
  const expected = leaves.map(([name, command]) => {
    const options = command.options.map(({ long }) => long).filter((long) => !PLACE.includes(long ?? ""));
    return { name, args: command.registeredArguments.map((each) => each.name().toUpperCase()), options };
  });
  const shown = rowsBelow("Commands").map(([cell = ""]) => {
    const [, name = "", rest = ""] = /^`(claviger(?: [a-z][a-z-]*)+)(.*)`$/.exec(cell) ?? [];
    return {
      name,
      args: /^(?: [A-Z]+)*/.exec(rest)?.[0].match(/[A-Z]+/g) ?? [],
      options: rest.match(/--[a-z0-9-]+/g) ?? [],
    };
  });
  const sorted = (rows: typeof shown) =>
    rows
      .map((row) => ({ ...row, options: row.options.toSorted() }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  expect(sorted(shown)).toEqual(sorted(expected as typeof shown));
});

const PLACE = ["--data-dir", "--env-file"];

test("README.md shows every command with what it prints", () => {
  const leaves = leavesOf(createProgram(surround("/", {}).surroundings), "claviger").map(([name]) => name);
  const run = readConsoleSteps(readme).map(({ command }) => command);
  // The one that goes on until it is stopped: its block is compared with what a demo prints.
  const shown = [...run, ...(readme.match(/^\$ \.\/claviger serve .*$/gm) ?? [])];
  const missing = leaves.filter(
    (name) => !shown.some((command) => new RegExp(`\\./${name}\\b`).test(command)),
  );
  expect(missing).toEqual([]);
});

test("README.md has every code under its status", () => {
  const rows = [...readme.matchAll(/^\| (\d{3}) \| (.*) \|$/gm)];
  const shown = rows.flatMap(([, status, cell = ""]) =>
    [...cell.matchAll(/`([A-Z]{3,}(?:_[A-Z]+)+)`/g)].map(([, code]) => [code, Number(status)] as const),
  );
  for (const [code, status] of shown) {
    // The one code that has two statuses on the wire.
    const ofOurs = status === 422 ? "CLAIM_MISMATCH" : (code as Code);
    expect([code, toWireCode(ofOurs), statusOf(ofOurs)]).toEqual([code, code as Code, status]);
  }
  expect(new Set(shown.map(([code]) => code))).toEqual(new Set(CODES));
});

/** A record, so that the compiler asks for every code. */
const CODES = Object.keys({
  MISSING_KEY: 0,
  INVALID_FORMAT: 0,
  MISSING_EVENT_TYPE: 0,
  INVALID_KEY: 0,
  KEY_EXPIRED: 0,
  KEY_NOT_FOUND: 0,
  METHOD_NOT_ALLOWED: 0,
  QUOTA_EXCEEDED: 0,
  RATE_LIMIT_EXCEEDED: 0,
  SERVER_ERROR: 0,
  NOT_CONFIGURED: 0,
  INVALID_REQUEST: 0,
  INVALID_LINK: 0,
  LICENSE_REQUIRED: 0,
  NOT_FOUND: 0,
  PAYLOAD_TOO_LARGE: 0,
  RANGE_NOT_SATISFIABLE: 0,
  UNSUPPORTED_MEDIA_TYPE: 0,
  SERVICE_UNAVAILABLE: 0,
} satisfies Record<Exclude<Code, "CLAIM_MISMATCH">, 0>);

test("README.md has every dependency with its version, and what it is for", () => {
  const { dependencies, optionalDependencies, devDependencies } = packageJson;
  const expected = { ...dependencies, ...optionalDependencies, ...devDependencies };
  const rows = rowsBelow("Dependencies");
  const shown = rows.map(([name = "", version = ""]) => [name.replaceAll("`", ""), version]);
  expect(Object.fromEntries(shown)).toEqual(expected);
  for (const [, , purpose] of rows) expect(purpose).not.toBe("");
  expect(readme).toContain(`Bun ${packageJson.engines.bun}`);
});

test("test/README.md names tests and folders that exist", () => {
  const page = readFileSync(join(import.meta.dir, "README.md"), "utf8");
  const named = [...page.matchAll(/`(test\/[\w/]+\.ts)`/g)].map(([, path = ""]) => path);
  named.push(...[...page.matchAll(/^\| `(\w+\/)`/gm)].map(([, folder]) => `test/${folder}`));
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((path) => !existsSync(join(import.meta.dir, "..", path)))).toEqual([]);
});

test("README.md links to headings that there are", () => {
  const headings = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, text = ""]) =>
    text
      .toLowerCase()
      .replaceAll(/[^a-z0-9 -]/g, "")
      .replaceAll(" ", "-"),
  );
  const links = [...readme.matchAll(/\]\(#([^)]+)\)/g)].map(([, link = ""]) => link);
  expect(links.filter((link) => !headings.includes(link))).toEqual([]);
});

describe("readConsoleSteps()", () => {
  test("reads commands, those that go on, and what each prints", () => {
    const block = "```console\n$ one |\n>   two\nout\n\nmore\n$ three\n```\n```\n$ not this\n```\n";
    expect(readConsoleSteps(block)).toEqual([
      { command: "one |\n  two", output: "out\n\nmore\n" },
      { command: "three", output: "" },
    ]);
  });
});

describe("readWalkSteps()", () => {
  test("reads the scripts below a heading, each with what is shown right below it", () => {
    const page =
      "## One\n```sh\nno\n```\n## Two\n```sh\na\nb\n```\n\n```\nprinted\n```\n\n```sh\nc\n```\ntext\n\n```\nnot this\n```\n";
    expect(readWalkSteps(page, "Two")).toEqual([
      { script: "a\nb\n", shown: "printed\n" },
      { script: "c\n", shown: undefined },
    ]);
  });
});

describe("mask()", () => {
  test("blanks what differs each time, and nothing else", () => {
    const printed = `key_${"0".repeat(32)}  svc_live_${"a".repeat(48)}  at 2026-11-20T10:00:00Z  used 5  svc_live_…00ff`;
    expect(mask(printed)).toBe("key_ID  svc_live_KEY  at TIME  used 5  svc_live_…HINT");
    const machine =
      "on 2026-11-20 of 2026-11\r\n71 GB free for /tmp/x/claviger-data, 9 rows of 12 tables (3 kB, 0.1 s)";
    expect(mask(machine)).toBe("on DAY of MONTH\nSPACE free for FOLDER/claviger-data, ROWS of TABLES (TIME)");
  });
});
