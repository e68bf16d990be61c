import { describe, expect, test } from "bun:test";
import { describeChanges } from "../../src/audit/mod.ts";

const shown = (before: unknown, after: unknown) =>
  describeChanges(before, after).map(({ field, before, after }) => [field, before, after]);

describe("describeChanges()", () => {
  test("names the fields of which the log has no values", () => {
    expect(shown(null, { changed: ["name", "external_id"] })).toEqual([
      ["changed", undefined, "name, external id"],
    ]);
  });

  test("shows the changed fields, and the name of the changed thing", () => {
    const before = {
      operator: "ivan",
      role: "viewer",
      monthly_limit: null,
      expires_at: "2027-01-31T12:30:00Z",
    };
    const after = {
      operator: "ivan",
      role: "editor",
      monthly_limit: 5_000,
      expires_at: "9999-12-31T23:59:59Z",
    };
    expect(shown(before, after)).toEqual([
      ["operator", undefined, "ivan"],
      ["role", "viewer", "editor"],
      ["monthly limit", "the tier's", "5,000"],
      ["expiry", "2027-01-31T12:30:00Z", "never"],
    ]);
    expect(shown({ started_at: null }, { started_at: "2026-12-01T00:00:00Z" })).toEqual([
      ["start", "not yet", "2026-12-01T00:00:00Z"],
    ]);
    const own = { max_offline_days: 14, shows_machines: false, self_releases: 2 };
    expect(shown({ tier: "free" }, { tier: "free", ...own })).toEqual([
      ["offline days", "as the tier says", "14"],
      ["names of machines for clients", "as usual", "no"],
      ["releases by clients", "the usual number", "2"],
    ]);
    expect(shown({ tier: "free", max_offline_days: 14 }, { tier: "free" })).toEqual([
      ["offline days", "14", "as the tier says"],
    ]);
    expect(shown(null, { max_offline_days: 14 })).toEqual([["offline days", undefined, "14"]]);
    expect(shown({ tier: "free", mode: "live" }, { tier: "free", mode: "test" })).toEqual([
      ["mode", "live", "test"],
    ]);
  });

  test("shows every field of a thing that was made or removed, and values of any form", () => {
    expect(shown(null, { scopes: ["keys:read", "keys:issue"], mode: null, deep: { a: 1 } })).toEqual([
      ["scopes", undefined, "keys:read, keys:issue"],
      ["mode", undefined, "both"],
      ["deep", undefined, '{"a":1}'],
    ]);
    expect(shown({ session: "ses_1" }, null)).toEqual([["session", "ses_1", undefined]]);
    expect(shown(null, null)).toEqual([]);
    expect(shown(null, "text")).toEqual([["value", undefined, "text"]]);
  });

  test("describes a value that only one side has as added or removed, and says what null means", () => {
    expect(shown({ signing_key: "a" }, { signing_key: "b", successor: "c" })).toEqual([
      ["signing key", "a", "b"],
      ["successor", undefined, "c"],
    ]);
    expect(shown({ tier: "free", external_id: "order-1" }, { tier: "free" })).toEqual([
      ["external id", "order-1", undefined],
    ]);
    expect(shown({ max_machines: 5 }, { max_machines: 1_000, seat_minutes: 30 })).toEqual([
      ["machine limit", "5", "1,000"],
      ["seat minutes", undefined, "30"],
    ]);
    expect(shown({ listed_version: "1.0.0" }, { listed_version: null })).toEqual([
      ["listed version", "1.0.0", "none"],
    ]);
    expect(shown(null, { tiers: null, mode: null, sources: null, expires_at: null })).toEqual([
      ["tiers", undefined, "all"],
      ["mode", undefined, "both"],
      ["sources", undefined, "everywhere"],
      ["expiry", undefined, "never"],
    ]);
  });

  test("leaves a text that only looks like an instant as it is", () => {
    for (const text of ["2026-13-45T99:99:99Z", "2026-11-22T00:00+01:00", "T", "order-9999"])
      expect(shown(null, { external_id: text })).toEqual([["external id", undefined, text]]);
  });

  test("gives fields names that read well before a value", () => {
    const after = {
      own_expires_at: "2026-12-01T00:00:00Z",
      replaced_by: "key_1",
      requires_license: "free",
      jti: "j",
    };
    expect(shown(null, after)).toEqual([
      ["expiry of this key", undefined, "2026-12-01T00:00:00Z"],
      ["replaced by", undefined, "key_1"],
      ["required tier", undefined, "free"],
      ["license file", undefined, "j"],
    ]);
  });

  test("names each feature and each value that a license or a tier got, lost or has otherwise", () => {
    const features = { streaming: { granted: false }, training: { granted: true } };
    const until = { granted: true, until: "2027-06-30T23:59:59Z" };
    expect(
      shown(
        { tier: "free", own_features: features, own_entitlements: { channels: 1000 } },
        { tier: "free", own_features: { ...features, custom_models: until, streaming: { granted: true } } },
      ),
    ).toEqual([
      ["feature custom_models", undefined, "granted until 2027-06-30"],
      ["feature streaming", "withdrawn", "granted"],
      ["value channels", "1,000", undefined],
    ]);
    const of = { tier: "free" };
    expect(shown({ ...of, entitlements: { a_b: "x" } }, { ...of, entitlements: { a_b: true } })).toEqual([
      ["tier", undefined, "free"],
      ["value a_b", "x", "true"],
    ]);
  });
});
