import { describe, expect, test } from "bun:test";

const [ONE, TWO] = [new Date("2026-11-20T12:00:00Z"), new Date("2026-11-20T12:00:01Z")];

describe("toMatchObject()", () => {
  test("toMatchObject() accepts the same date, at any depth, and any date if it may be any", () => {
    expect({ at: ONE, more: 1 }).toMatchObject({ at: new Date(ONE) });
    expect([{ of: [{ at: ONE, more: 1 }] }]).toMatchObject([{ of: [{ at: new Date(ONE) }] }]);
    expect({ at: ONE }).toMatchObject({ at: expect.any(Date) });
  });

  test.each([
    ["another date", { at: TWO }],
    ["another date further below", { at: ONE, of: [{ at: TWO }] }],
    ["no date", { at: null }],
  ])("toMatchObject() refuses %s", async (_, received) => {
    const expected = "of" in received ? { of: [{ at: ONE }] } : { at: ONE };
    expect(() => expect(received).toMatchObject(expected)).toThrow();
    expect(received).not.toMatchObject(expected);
    await expect(Promise.resolve(received)).resolves.not.toMatchObject(expected);
  });
});
