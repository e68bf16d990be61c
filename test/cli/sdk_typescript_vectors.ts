/**
 * Compares what the module of the page `sdk` in TypeScript decides with the test vectors, in the runtime that starts this
 * program: Bun, or Node without any package. Prints how many cases were checked, and those that are wrong.
 */
import { isDeepStrictEqual } from "node:util";
import { gunzipSync } from "node:zlib";
import {
  check,
  clockAfter,
  decideDownload,
  entitlementsOf,
  explain,
  featuresAt,
  isFresh,
  keepValidation,
  makeReport,
  mayUse,
  type OpenedFile,
  Refused,
  readBundle,
  settleEvents,
  type Trouble,
  type Validation,
} from "../../src/cli/guide/sdk/claviger_client.ts";
import licenses from "../../src/cli/guide/sdk/license_vectors.json" with { type: "json" };
import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };
import { CLOSED_WHY, WHY } from "./license_reasons.ts";

type Answer = NonNullable<Parameters<typeof settleEvents>[1]>;

/** The reasons that are about a bundle here. */
const OF_BUNDLES = ["not_genuine", "not_pinned"];

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
  const { kept, accepted, next, waitSeconds: wait_seconds, most } = settled;
  const refused = settled.refused.map(({ index, code }) => ({ index, code }));
  compare(name, { kept, accepted, refused, next, wait_seconds, most }, expect);
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
for (const { name, license_id, lines, made_at, with_events, expect, ...request } of vectors.reports) {
  const { text, uses, dropped, digest } = makeReport(
    lines.map((text, index) => ({ text, end: index + 1 })),
    { ...request, licenseId: license_id, madeAt: made_at, withEvents: with_events },
  );
  compare(name, { text, uses, dropped, digest }, expect);
}
for (const { reason, closed, expect } of vectors.sentences)
  compare(`the sentence of ${reason}`, [explain(reason as Trouble, closed)], [expect]);
for (const { name, seen, highest_iat, iat, now, expect } of vectors.clocks) {
  const latest = clockAfter(seen, highest_iat, iat);
  const isBehind = Math.max(latest, iat) > now + 300;
  compare(name, { seen: latest, why: isBehind ? "clock_behind" : null }, expect);
}
for (const { name, bundle, audience, key_id, fingerprint, now, seen, ...more } of vectors.bundles.cases) {
  const { highest_iat: highestIat, kept, why, models, files } = more as typeof more & Expected;
  const names = { audience, keyId: key_id, fingerprint: fingerprint ?? undefined };
  const terms = { ...names, now, seen, highestIat, kept };
  const bytes = gunzipSync(Buffer.from(bundle, "base64"));
  const found: object[] = [];
  // Whatever the sizes of the chunks are.
  for (const size of [1 + (bytes.length % 7), 512, 65_536])
    try {
      const read = await readBundle(chunksOf(bytes, size), vectors.bundles.keys.keys, { terms });
      const namesOf = (kind: OpenedFile["kind"]) =>
        read.files.filter((file) => file.kind === kind).map(({ path }) => path.replace(/^.*\//, ""));
      found.push({ models: namesOf("model"), files: namesOf("file") });
    } catch (error) {
      found.push({ why: error instanceof Refused ? whyOf(error.message) : String(error) });
    }
  const expected =
    why === null ? { models, files } : { why: OF_BUNDLES.includes(why) ? why : CLOSED_WHY[why] };
  compare(name, found, [expected, expected, expected]);
}
process.stdout.write(JSON.stringify({ checked, wrong }));

interface Expected {
  readonly models?: readonly string[];
  readonly files?: readonly string[];
}

async function* chunksOf(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Returns the reason of a sentence about the bundle; the other sentences are those of licenses. */
function whyOf(sentence: string): string {
  if (/^the bundle is not genuine/.test(sentence)) return "not_genuine";
  const isUnknown = sentence === "none of the pinned keys has signed the bundle: update this program";
  return isUnknown ? "not_pinned" : sentence;
}
