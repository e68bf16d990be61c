/** isPlainEvent() checks an event's fields faster than the schema. These tests compare both. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import * as v from "valibot";
import { eventFields, isPlainEvent } from "../../src/usage/event_fields.ts";
import { EVENT_TYPES, INFERENCE_TYPES } from "../../src/usage/mod.ts";

const FULL = {
  event_type: "inference",
  model_name: "p300_binary_v1",
  inference_type: "streaming",
  duration_ms: 12.5,
  success: true,
  error_message: "line\nbreak 💡",
};

/** Values at the limits of some field, or of a wrong type. */
const odd = fc.oneof(
  fc.constantFrom(
    null,
    undefined,
    true,
    false,
    "",
    "inference",
    "batch",
    0,
    -0,
    -1,
    1e308,
    -Number.MIN_VALUE,
  ),
  fc.constantFrom(
    Number.POSITIVE_INFINITY,
    Number.NaN,
    "12",
    "true",
    "Inference",
    "inference ",
    "constructor",
  ),
  fc.constantFrom([], ["inference"], {}, { inference: 1 }, "\u0000", "\ud800", "\ufffd", "x💡\udca1"),
  fc.constantFrom(199, 200, 201, 1_999, 2_000, 2_001).map((length) => "x".repeat(length)),
  fc.constantFrom(100, 200, 201, 1_000, 2_000, 2_001).map((length) => "💡".repeat(length)),
  fc.string({ unit: "binary" }),
  fc.jsonValue(),
);

/** Returns bodies whose fields are mostly right, so that some bodies are valid and some are not. */
function bodyOf(metadata: fc.Arbitrary<unknown>) {
  const orOdd = <Value>(right: fc.Arbitrary<Value>) =>
    fc.oneof({ arbitrary: right, weight: 12 }, { arbitrary: odd, weight: 1 });
  return fc.record(
    {
      event_type: orOdd(fc.constantFrom(...EVENT_TYPES)),
      model_name: orOdd(fc.string({ maxLength: 210 })),
      inference_type: orOdd(fc.constantFrom(...INFERENCE_TYPES)),
      duration_ms: orOdd(fc.double({ min: 0, noNaN: true })),
      success: orOdd(fc.boolean()),
      error_message: orOdd(fc.string({ unit: "grapheme", maxLength: 50 })),
      metadata,
      api_key: odd,
    },
    { requiredKeys: ["event_type"] },
  );
}

describe("isPlainEvent()", () => {
  test("accepts exactly the events without metadata that the schema accepts", () => {
    let passed = 0;
    fc.assert(
      fc.property(bodyOf(fc.constantFrom(null, undefined)), (body) => {
        expect(isPlainEvent(body)).toBe(v.is(eventFields, body));
        if (isPlainEvent(body)) passed++;
      }),
      { numRuns: 5_000 },
    );
    expect(passed).toBeGreaterThan(250);
    expect(passed).toBeLessThan(4_750);
  });

  test("accepts no event that the schema refuses, whatever the metadata", () => {
    fc.assert(
      fc.property(fc.oneof(bodyOf(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())), (body) => {
        if (isPlainEvent(body)) expect(v.is(eventFields, body)).toBe(true);
      }),
      { numRuns: 5_000 },
    );
  });

  test("agrees with the schema on each field at its limits", () => {
    for (const name of Object.keys(eventFields.entries)) {
      fc.assert(
        fc.property(odd, (value) => {
          const body = { ...FULL, [name]: value };
          const isTaken = v.is(eventFields, body);
          if (name === "metadata") expect(isPlainEvent(body)).toBe(value === null || value === undefined);
          else expect([value, isPlainEvent(body)]).toEqual([value, isTaken]);
        }),
        { numRuns: 2_000 },
      );
    }
  });

  test("accepts only events that the schema returns unchanged", () => {
    expect(isPlainEvent(FULL)).toBe(true);
    expect(v.parse(eventFields, FULL)).toEqual(FULL as never);
  });
});
