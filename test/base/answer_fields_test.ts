import { describe, expect, test } from "bun:test";
import * as v from "valibot";
import { count, fieldsOf, renderFields, schemasOf, timestamp } from "../../src/base/answer_fields.ts";
import { toTimestamp } from "../../src/base/calendar.ts";

const field = fieldsOf<{ readonly uses: number; readonly madeAt: Date }>();
const FIELDS = {
  made_at: field(timestamp(), ({ madeAt }) => toTimestamp(madeAt)),
  uses: field(count(), ({ uses }) => uses, "Inferences of this month"),
};

describe("the fields of a thing", () => {
  test("give its JSON in the order of their declaration", () => {
    const json = renderFields(FIELDS, { uses: 3, madeAt: new Date(0) });

    expect(JSON.stringify(json)).toBe('{"made_at":"1970-01-01T00:00:00Z","uses":3}');
  });

  test("give its schema, with the sentence of the document", () => {
    const schema = v.object(schemasOf(FIELDS));

    expect(v.is(schema, { made_at: "1970-01-01T00:00:00Z", uses: 3 })).toBe(true);
    expect(v.is(schema, { made_at: "yesterday", uses: 3 })).toBe(false);
    expect(v.getDescription(schema.entries.uses)).toBe("Inferences of this month");
  });

  test("must have values that their schema allows", () => {
    // @ts-expect-error A number is no timestamp.
    const wrong = field(timestamp(), ({ uses }) => uses);

    expect(v.is(wrong.schema, wrong.of({ uses: 3, madeAt: new Date(0) }))).toBe(false);
  });
});
