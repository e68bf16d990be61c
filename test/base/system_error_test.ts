import { describe, expect, test } from "bun:test";
import { codeOf, FILE_REASONS, hasCode, reasonOf } from "../../src/base/system_error.ts";

const coded = (code: string, message = "what the system says") => Object.assign(new Error(message), { code });

describe("reasonOf()", () => {
  test("returns the table's sentence, or the caller's own sentence if it has one", () => {
    expect(reasonOf(coded("ENOENT"), FILE_REASONS)).toBe("there is no such file");
    expect(reasonOf(coded("ENOENT"), { ...FILE_REASONS, ENOENT: "run init first" })).toBe("run init first");
  });

  test("returns the error's message for a code without a sentence, and the code if there is no message", () => {
    expect(reasonOf(coded("EIO"), FILE_REASONS)).toBe("what the system says");
    expect(reasonOf(coded("EIO", ""), FILE_REASONS)).toBe("EIO");
    expect(reasonOf("a text", FILE_REASONS)).toBe("a text");
  });
});

test("codeOf() and hasCode() read the code only of errors", () => {
  expect([codeOf(coded("EACCES")), codeOf(new Error("x")), codeOf({ code: "EACCES" })]).toEqual([
    "EACCES",
    undefined,
    undefined,
  ]);
  expect([hasCode(coded("EACCES"), "EACCES"), hasCode(coded("EACCES"), "ENOENT")]).toEqual([true, false]);
});
