/**
 * Generates keys and times, and compares the signed license of each with the answer of validate: who gets a license, and
 * how long it is valid.
 */

import { expect } from "bun:test";
import fc from "fast-check";
import { createLocalJWKSet, decodeJwt, type JSONWebKeySet, jwtVerify } from "jose";
import { NEVER_EXPIRES } from "../../../src/base/calendar.ts";
import type { IssuedKey } from "../../../src/licensing/keys/mod.ts";
import { TIERS } from "../../../src/licensing/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { uuidOf } from "../../support/keys.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const DAY_MS = 86_400_000;
const OFFLINE_DAYS = { free: 1, research: 7, commercial: 0, enterprise: 30 };

/** The milliseconds from the start to an end of a key or license; often just where the days of a tier are over. */
const span = fc.oneof(
  fc.integer({ min: 1, max: 3_000 }),
  fc.integer({ min: 1, max: 40 * DAY_MS }),
  fc.constantFrom(1_000, DAY_MS, 7 * DAY_MS, 30 * DAY_MS),
);

const generatedKey = fc.record({
  tier: fc.constantFrom(...TIERS),
  state: fc.constantFrom("active", "active", "active", "active", "suspended", "revoked"),
  /** Undefined: the license never ends. */
  licenseEndsMs: fc.option(span, { nil: undefined }),
  /** The end of a key that was rotated. */
  keyEndsMs: fc.option(span, { nil: undefined, freq: 2 }),
  isUsedUp: fc.boolean(),
});

type GeneratedKey = typeof generatedKey extends fc.Arbitrary<infer Value> ? Value : never;

interface Subject extends GeneratedKey {
  readonly apiKey: string;
}

const step = fc.oneof(
  fc.integer({ min: 1, max: 3_000 }),
  fc.integer({ min: 1, max: 2 * DAY_MS }),
  fc.constant(DAY_MS),
);

const history = fc.record({
  keys: fc.array(generatedKey, { minLength: 8, maxLength: 24, size: "max" }),
  steps: fc.array(step, { minLength: 1, maxLength: 30, size: "max" }),
});

/** Checks generated histories until that many licenses were signed. */
export async function checkTerms({ seed, licenses }: { readonly seed: number; readonly licenses: number }) {
  const clock = createTestClock();
  await using service = await startTestService({
    config: { offlineDays: OFFLINE_DAYS, logRequests: "off" },
    clock,
  });
  let signed = 0;
  const outcomes = new Set<string>();
  const keys = (await service.get("/.well-known/jwks.json")).body as JSONWebKeySet;
  for (let round = 0; signed < licenses; round++) {
    const property = fc.asyncProperty(history, async (generated) => {
      const startMs = clock.nowMs();
      const subjects = await Promise.all(generated.keys.map((key) => make(service, { key, startMs })));
      for (const stepMs of [0, ...generated.steps]) {
        await service.advance(stepMs);
        const checks = subjects.map((subject) => check(service, { subject, startMs, keys }));
        for (const outcome of await Promise.all(checks)) {
          outcomes.add(outcome);
          if (outcome === "200") signed++;
        }
      }
    });
    await fc.assert(property, { seed: seed + round, numRuns: 5, interruptAfterTimeLimit: 60_000 });
  }
  return { signed, outcomes };
}

async function make(
  service: TestService,
  { key, startMs }: { readonly key: GeneratedKey; readonly startMs: number },
): Promise<Subject> {
  const { tier, state, licenseEndsMs, keyEndsMs, isUsedUp } = key;
  const issued: IssuedKey = await service.issue({
    tier,
    ...(isUsedUp && { monthlyLimit: 0 }),
    expiresAt: licenseEndsMs === undefined ? NEVER_EXPIRES : new Date(startMs + DAY_MS * 400),
  });
  const at = (ms: number | undefined) => (ms === undefined ? null : new Date(startMs + ms));
  // Set in the database, because issuing and rotating refuse an expiry that is so near.
  await service.database.query(
    (sql) => sql`
      with changed as (
        update keys set state = ${state}, own_expires_at = ${at(keyEndsMs)}::timestamptz,
               revoked_at = case when ${state} = 'revoked' then now() end
         where id = ${uuidOf(issued)}::uuid
      )
      update licenses set expires_at = coalesce(${at(licenseEndsMs)}::timestamptz, expires_at)
       where id = ${issued.licenseUuid}::uuid`,
  );
  return { ...key, apiKey: issued.apiKey };
}

/** Compares the license of one key with validate. Returns the status of the license, or its code. */
async function check(
  service: TestService,
  {
    subject,
    startMs,
    keys,
  }: { readonly subject: Subject; readonly startMs: number; readonly keys: JSONWebKeySet },
): Promise<string> {
  const body = { api_key: subject.apiKey };
  const validated = await service.post("/v1/auth/validate", body);
  const { status, body: answer } = await service.post("/v1/auth/license", body);
  const ends = [subject.licenseEndsMs, subject.keyEndsMs].filter((ms) => ms !== undefined);
  const endMs = startMs + Math.min(...ends);
  if (status !== 200) {
    if (answer.code === "OFFLINE_NOT_ALLOWED") expect(OFFLINE_DAYS[subject.tier]).toBe(0);
    // In its last second a key still works, but there is no whole second left for a license.
    else if (validated.status !== 401) expect(endMs - service.clock.nowMs()).toBeLessThan(1_000);
    return answer.code;
  }
  expect(validated.status).toBe(subject.isUsedUp ? 429 : 200);
  const { payload } = await jwtVerify(answer.license, createLocalJWKSet(keys), {
    algorithms: ["EdDSA"],
    audience: "svc",
    typ: "license+jwt",
    // The clock goes on, and a license may be valid for only a second.
    currentDate: new Date((decodeJwt(answer.license).iat ?? 0) * 1_000),
  });
  const { exp = Number.POSITIVE_INFINITY, iat = 0, refresh_after: refreshAfter } = payload;
  // The license was signed within the second that begins at `iat`.
  const tierEndS = iat + OFFLINE_DAYS[subject.tier] * 86_400;
  expect(exp).toBe(Math.min(tierEndS, Math.floor(endMs / 1_000)));
  expect(exp).toBeGreaterThan(iat);
  expect(refreshAfter).toBe(iat + Math.floor((exp - iat) / 2));
  return "200";
}
