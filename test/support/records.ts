/** Makes key records without a database, for tests of the code that caches or passes on records. */
import { newUuid } from "../../src/base/ids.ts";
import { parseKeyHash } from "../../src/licensing/keys/key_hash.ts";
import type { KeyRecord } from "../../src/licensing/keys/mod.ts";

/** Makes the record of an active research key; `fields` replaces any field. For a cache, set the hash. */
export function keyRecord(fields: Partial<KeyRecord> = {}): KeyRecord {
  return {
    ...parseKeyHash("0".repeat(64)),
    uuid: newUuid(),
    licenseUuid: "license",
    accountUuid: "account",
    account: { email: "ada@example.org", name: "Ada", organization: "" },
    state: "active",
    tier: "research",
    monthlyLimit: 50_000,
    expiresAtMs: Date.UTC(2100, 0),
    updatesUntilMs: Number.POSITIVE_INFINITY,
    featuresChangeAtMs: Number.POSITIVE_INFINITY,
    hasCustomModels: undefined,
    features: "[]",
    entitlements: "",
    usage: { monthIndex: 0, used: 0 },
    window: undefined,
    leastLimit: 0,
    movedAtMs: 0,
    isUseNoted: false,
    answer: "",
    answeredUsage: undefined,
    answeredMonth: undefined,
    quotaAt: 0,
    ...fields,
  };
}
