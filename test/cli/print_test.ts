/** Tests how tables and failures look on a terminal and in a pipe. */
import { expect, test } from "bun:test";
import { printFailure, printFields, printTable } from "../../src/cli/print.ts";
import { createCommandLine, createTestInvocation } from "./command_line.ts";

const ROWS = [
  { id: "key_1", email: "ada@example.org", used: 12, limit: "unlimited", note: "a".repeat(30) },
  { id: "key_2", email: "b@example.org", used: 7, limit: "50000", note: null },
];
const WHOLE = [
  "ID     EMAIL            USED  LIMIT      NOTE",
  `key_1  ada@example.org    12  unlimited  ${"a".repeat(30)}`,
  "key_2  b@example.org       7  50000      -",
  "",
].join("\n");

function tableAt(columns?: number): string {
  const { invocation, seen } = createTestInvocation("/", { ...(columns && { columns }) });
  printTable(invocation, ROWS);
  return seen.out;
}

test("printTable() prints a row as one line in a pipe and on a wide terminal", () => {
  expect(tableAt()).toBe(WHOLE);
  expect(tableAt(71)).toBe(WHOLE);
});

test("printTable() continues rows on further lines on a narrow terminal, except a last cell that fits on the line of the others", () => {
  expect(tableAt(70)).toBe(
    [
      "ID     EMAIL            USED  LIMIT      NOTE",
      "key_1  ada@example.org    12  unlimited",
      `  ${"a".repeat(30)}`,
      "key_2  b@example.org       7  50000      -",
      "",
    ].join("\n"),
  );
  expect(tableAt(32)).toBe(
    [
      "ID     EMAIL            USED",
      "  LIMIT      NOTE",
      "key_1  ada@example.org    12",
      "  unlimited",
      `  ${"a".repeat(30)}`,
      "key_2  b@example.org       7",
      "  50000      -",
      "",
    ].join("\n"),
  );
});

test("printTable() keeps a row on one line if its own cells fit, although another row has a longer one", () => {
  const { invocation, seen } = createTestInvocation("/", { columns: 36 });
  printTable(invocation, [
    { id: "key_1", email: "ada@example.org", state: "active" },
    { id: "key_2", email: "b@example.org", state: "suspended" },
    { id: "key_3", email: "someone.else@example.org", state: "active" },
  ]);
  expect(seen.out.split("\n")).toEqual([
    "ID     EMAIL                   STATE",
    "key_1  ada@example.org        active",
    "key_2  b@example.org       suspended",
    "key_3  someone.else@example.org",
    "  active",
    "",
  ]);
});

test("printTable() aligns numbers at the right, also those that people write", () => {
  const { invocation, seen } = createTestInvocation("/", {});
  printTable(invocation, [
    { id: "a", used: "335,524", version: "1.0" },
    { id: "b", used: "7", version: "1.10" },
  ]);
  expect(seen.out).toBe("ID     USED  VERSION\na   335,524  1.0\nb         7  1.10\n");
});

test("printTable() breaks a text that is wider than the terminal between words", () => {
  const { invocation, seen } = createTestInvocation("/", { columns: 30 });
  const long = "x".repeat(40);
  printTable(invocation, [{ name: "a", scopes: `keys:read, keys:issue, keys:manage, ${long} end` }]);
  expect(seen.out.split("\n")).toEqual([
    "NAME  SCOPES",
    "a",
    "  keys:read, keys:issue,",
    "  keys:manage,",
    `  ${long}`,
    "  end",
    "",
  ]);
});

test("printFields() breaks a value that is wider than the terminal between words, and no value in a pipe", () => {
  const fields = { id: "key_1", organization: "Institute of Applied Signals", path: `/${"x".repeat(40)}` };
  const printed = (columns?: number) => {
    const { invocation, seen } = createTestInvocation("/", { ...(columns && { columns }) });
    printFields(invocation, fields);
    return seen.out.split("\n");
  };
  expect(printed(30)).toEqual([
    "id            key_1",
    "organization  Institute of",
    "              Applied Signals",
    `path          ${fields.path}`,
    "",
  ]);
  expect(printed()).toHaveLength(4);
});

test("printTable() prints no line wider than the terminal, unless one cell is wider", () => {
  for (let columns = 32; columns < 80; columns++) {
    const widest = Math.max(
      ...tableAt(columns)
        .split("\n")
        .map((line) => line.length),
    );
    expect(widest).toBeLessThanOrEqual(columns);
  }
});

test("printFailure() colours its first word on a terminal, unless NO_COLOR is set", () => {
  const shown = (options: Parameters<typeof createTestInvocation>[1]) => {
    const { invocation, seen } = createTestInvocation("/", options);
    printFailure(invocation, "Cannot do it: \u001b[31m");
    return seen.err;
  };
  expect(shown({ isTerminal: true })).toBe("\u001b[31mclaviger:\u001b[39m Cannot do it: \\u001b[31m\n");
  for (const options of [{}, { columns: 80 }, { isTerminal: true, env: { NO_COLOR: "1" } }])
    expect(shown(options)).toBe("claviger: Cannot do it: \\u001b[31m\n");
});

test("claviger colours a refusal and wrong usage on a terminal", async () => {
  using line = createCommandLine();
  for (const args of [["frobnicate"], ["systemd", "--tls-group", "g"]])
    expect((await line.run(args, { isTerminal: true })).err).toStartWith("\u001b[31mclaviger:\u001b[39m ");
});
