import { describe, expect, test } from "bun:test";
import { type Entitlements, valueEffectsOf } from "../../src/licensing/mod.ts";

const valued = (ownEntitlements: Entitlements, tierEntitlements?: Entitlements) => ({
  ownEntitlements,
  tierEntitlements,
});

describe("valueEffectsOf()", () => {
  test("says that the value of the tier counts before a license gets its own, and after it loses it", () => {
    const tier = { channels: 64, region: "eu" };
    expect(valueEffectsOf(valued({}, tier), valued({ channels: 32 }, tier))).toEqual([
      { what: "value channels", from: "64 by the tier", to: "32", loss: "lower value" },
    ]);
    expect(valueEffectsOf(valued({ channels: 32 }, tier), valued({}, tier))).toEqual([
      { what: "value channels", from: "32", to: "64 by the tier", loss: undefined },
    ]);
  });

  test("names a value that stays when the license gets it as its own, because it no longer follows the tier", () => {
    const [before, after] = [valued({}, { channels: 64 }), valued({ channels: 64 }, { channels: 64 })];
    expect(valueEffectsOf(before, after)).toEqual([
      { what: "value channels", from: "64 by the tier", to: "64", loss: undefined },
    ]);
  });

  test("shows the values of another tier, but for those that the license has itself", () => {
    const own = { channels: 8 };
    expect(
      valueEffectsOf(valued(own, { channels: 32, seats: 5, region: "eu" }), valued(own, { channels: 64 })),
    ).toEqual([
      { what: "value region", from: '"eu" by the tier', to: "none", loss: "value removed" },
      { what: "value seats", from: "5 by the tier", to: "none", loss: "value removed" },
    ]);
  });

  test("shows own values alone where those of the tier are not known", () => {
    expect(valueEffectsOf(valued({ a: 1 }), valued({ a: 2 }))).toEqual([
      { what: "value a", from: "1", to: "2", loss: undefined },
    ]);
  });
});
