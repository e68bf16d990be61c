/**
 * Compares what the module of the page `sdk` in TypeScript decides with the test vectors, in the runtime that starts this
 * program: Bun, or Node without any package. Prints how many cases were checked, and those that are wrong.
 */
import { isDeepStrictEqual } from "node:util";
import {
  check,
  decideDownload,
  entitlementsOf,
  featuresAt,
  isFresh,
  keepValidation,
  mayUse,
  Refused,
  settleEvents,
  type Validation,
} from "../../src/cli/guide/sdk/claviger_client.ts";
import licenses from "../../src/cli/guide/sdk/license_vectors.json" with { type: "json" };
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };

type Answer = NonNullable<Parameters<typeof settleEvents>[1]>;

/** The sentence of each reason in the vectors of licenses. */
const WHY: Readonly<Record<string, string>> = {
  no_license: "the file holds no license",
  not_pinned: "none of the pinned keys has signed the license: update this program",
  not_genuine: "the license is not genuine",
  other_product: "the license is for another product",
  other_key: "the license is for another key",
  other_machine: "the license is for another machine",
  clock_behind: "the clock is behind: correct it, or go online",
  expired: "the license has expired: go online",
};

const wrong: object[] = [];
let checked = 0;

function compare(name: string, found: object, expected: object): void {
  checked++;
  if (!isDeepStrictEqual(found, expected)) wrong.push({ name, found, expected });
}

for (const { name, saved, seen, answer, sent_at, now, expect } of vectors.validations) {
  const times = { seen, sentAt: sent_at, now };
  const [kept, after] = keepValidation(saved as Validation | null, answer as Answer | null, times);
  const is_fresh = isFresh(kept, after, now);
  compare(name, { saved: kept, seen: after, is_fresh, may_use: mayUse(kept, after, now) }, expect);
}
for (const { name, events, failures, answer, expect } of vectors.batches) {
  const settled = settleEvents(events, answer as object as Answer | null, failures);
  const { kept, accepted, next, waitSeconds: wait_seconds } = settled;
  const refused = settled.refused.map(({ index, code }) => ({ index, code }));
  compare(name, { kept, accepted, refused, next, wait_seconds }, expect);
}
for (const { name, have_bytes, etag, size_bytes, failures, answer, expect } of vectors.downloads) {
  const part = { haveBytes: have_bytes, etag, sizeBytes: size_bytes };
  const [step, wait_seconds] = decideDownload(part, answer as object as Answer | null, failures);
  compare(name, { do: step, wait_seconds }, expect);
}
for (const { name, license, audience, key_id, fingerprint, now, seen, why, ...values } of licenses.cases) {
  const terms = { audience, keyId: key_id, fingerprint: fingerprint ?? undefined, now, seen };
  let found: object;
  try {
    const claims = check(license, licenses.keys.keys, terms);
    found = { features: featuresAt(claims, now), entitlements: entitlementsOf(claims) };
  } catch (error) {
    found = { why: error instanceof Refused ? error.message : String(error) };
  }
  compare(name, found, why === null ? values : { why: WHY[why] });
}
process.stdout.write(JSON.stringify({ checked, wrong }));
