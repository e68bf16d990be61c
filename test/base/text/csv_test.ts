/** Comma-separated values for spreadsheets, which can be told to split lines at other signs. */
import { describe, expect, test } from "bun:test";
import { parseCsvLine, renderCsv } from "../../../src/base/text/mod.ts";

/** Renders one cell, and returns its line without the end. */
async function render(text: string): Promise<string> {
  const columns = ["text"] as const;
  let csv = "";
  for await (const page of renderCsv([[text]], { columns, toCells: (cell: string) => ({ text: cell }) }))
    csv += page;
  return csv.slice("text\r\n".length, -"\r\n".length);
}

describe("renderCsv()", () => {
  test.each([
    ["=1+1", "'=1+1"],
    ["x;=1+cmd|' /C calc'!A0", "x;'=1+cmd|' /C calc'!A0"],
    ["x\t=1", "x\t'=1"],
    ["x; +1", "x;' +1"],
    ["x;\u200b＝1", "x;'\u200b＝1"],
    ["x;;-1;@SUM(1)", "x;;'-1;'@SUM(1)"],
    ['x;"=1"', `"x;'""=1"""`],
    ["x\r\n=1", `"x\r\n'=1"`],
  ])("makes text of each part of %j that a spreadsheet could take for a formula", async (text, line) => {
    expect(await render(text)).toBe(line);
  });

  test.each(["Acme; Sons", "a;b=1", "1-1;2+2", "Zoë\t李", ""])("leaves %j as it is", async (text) => {
    expect(parseCsvLine(await render(text))).toEqual([text]);
  });
});
