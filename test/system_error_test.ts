import { describe, expect, test } from "bun:test";
import { codeOf, FILE_REASONS, hasCode, reasonOf } from "../src/system_error.ts";

const coded = (code: string, message = "what the system says") => Object.assign(new Error(message), { code });

describe("reasonOf()", () => {
  test("gives the table's sentence, and a place's own before it", () => {
    expect(reasonOf(coded("ENOENT"), FILE_REASONS)).toBe("there is no such file");
    expect(reasonOf(coded("ENOENT"), { ...FILE_REASONS, ENOENT: "run init first" })).toBe("run init first");
  });

  test("gives the error's message for a code without a sentence, and the code where there is no message", () => {
    expect(reasonOf(coded("EIO"), FILE_REASONS)).toBe("what the system says");
    expect(reasonOf(coded("EIO", ""), FILE_REASONS)).toBe("EIO");
    expect(reasonOf("a text", FILE_REASONS)).toBe("a text");
  });
});

test("codeOf() and hasCode() read the code of errors alone", () => {
  expect([codeOf(coded("EACCES")), codeOf(new Error("x")), codeOf({ code: "EACCES" })]).toEqual([
    "EACCES",
    undefined,
    undefined,
  ]);
  expect([hasCode(coded("EACCES"), "EACCES"), hasCode(coded("EACCES"), "ENOENT")]).toEqual([true, false]);
});
