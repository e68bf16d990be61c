/** What each code means: in plain words for operators, and with the names of headers for programs alone. */
import { expect, test } from "bun:test";
import { CLIENT_CODES, conditionFor, sentenceOfCode } from "../../src/wire/mod.ts";

test("sentenceOfCode() names no header", () => {
  expect(CLIENT_CODES.filter((code) => /`|[A-Z][a-z]+-[A-Z]/.test(sentenceOfCode(code)))).toEqual([]);
  expect(sentenceOfCode("CLAIM_MISMATCH")).toBe("An event that was sent before came again with other fields");
});

test.each([
  ["PRECONDITION_FAILED", "`If-Match`"],
  ["EXPECTATION_FAILED", "`Expect`"],
  ["CLAIM_MISMATCH", "`Idempotency-Key`"],
] as const)("conditionFor() of %s names %s", (code, header) => {
  expect(conditionFor(code)).toContain(header);
});
