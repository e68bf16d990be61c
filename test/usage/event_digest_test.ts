import { expect, test } from "bun:test";
import { digestEvent, type UsageEvent } from "../../src/usage/mod.ts";
import { usageEvent } from "../support/events.ts";

const NOTHING = { inferenceType: null, durationMs: null, success: false };
const TEXT_RULES = { modelName: "m", errorMessage: "why", metadata: '{"b":[{"d":null,"c":"ü"}],"a":1e21}' };

// The digests must never change: the database and backups contain digests of earlier versions.
test.each<[Partial<UsageEvent>, string]>([
  [NOTHING, `000${"f".repeat(16)}${"0".repeat(45)}`],
  [{ type: "error", inferenceType: "streaming", durationMs: 12.5 }, `2214029${"0".repeat(57)}`],
  [{ durationMs: 0 }, `011${"0".repeat(61)}`],
  [{ durationMs: -0 }, `011${"0".repeat(61)}`],
  // The digits come from `sha256sum` of m, why and {"a":1e+21,"b":[{"c":"ü","d":null}]}.
  [{ ...NOTHING, ...TEXT_RULES }, `000${"f".repeat(16)}62c66a7a5dd70c312be23c585f15e5fd67c75f8ec3e98`],
])("digestEvent() returns the same digest of %j as earlier versions", (fields, digest) => {
  expect(digestEvent(usageEvent(fields))).toBe(digest);
});
