import { describe, expect, test } from "bun:test";
import {
  explainKey,
  type IssuedKey,
  type KeyExplanation,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../../src/licensing/mod.ts";
import { ACTOR, BRAND, issue, NOW } from "../../support/issue.ts";
import { uuidOf } from "../../support/keys.ts";
import { useDatabase } from "../../support/use.ts";

const database = useDatabase();

const HOUR_MS = 3_600_000;
const after = (hours: number) => new Date(NOW.getTime() + hours * HOUR_MS);
const by = (hours: number, reason?: string) => ({ actor: { ...ACTOR, reason }, now: after(hours) });

async function explain(key: Pick<IssuedKey, "id">, hours: number): Promise<KeyExplanation> {
  const explanation = await explainKey(database, uuidOf(key), { now: after(hours) });
  if (explanation === undefined) throw new Error("There is no such key");
  return explanation;
}

describe("explainKey()", () => {
  test("names the change that brought the key into its state, with its time, actor and reason", async () => {
    const key = await issue(database);
    expect(await explain(key, 0)).toMatchObject({
      since: NOW,
      change: { action: "key.issue", actor: "command:tester", reason: null },
      key: { obstacles: [] },
      resetsAt: "2026-12-01T00:00:00Z",
      refusals: [],
    });
    await suspendKey(createLicenseChanges(database), uuidOf(key), by(1, "invoice open"));
    expect(await explain(key, 2)).toMatchObject({
      since: after(1),
      change: { at: after(1), action: "key.suspend", actor: "command:tester", reason: "invoice open" },
      key: { obstacles: ["suspended"] },
    });
    await resumeKey(createLicenseChanges(database), uuidOf(key), by(3));
    expect(await explain(key, 4)).toMatchObject({
      since: after(3),
      change: { action: "key.resume" },
      key: { obstacles: [] },
    });
    await suspendKey(createLicenseChanges(database), uuidOf(key), by(5));
    await revokeKey(createLicenseChanges(database), { uuid: uuidOf(key) }, by(6, "leaked"));
    expect(await explain(key, 7)).toMatchObject({
      key: { state: "revoked", obstacles: ["revoked"] },
      since: after(6),
      change: { action: "key.revoke", reason: "leaked" },
    });
  });

  test("reports no change that was made by hand and is not in the audit log", async () => {
    const key = await issue(database);
    await database.query((sql) => sql`update keys set state = 'suspended' where id = ${uuidOf(key)}::uuid`);
    expect(await explain(key, 1)).toMatchObject({
      since: null,
      change: null,
      key: { obstacles: ["suspended"] },
    });
  });

  test("names every reason for a refusal, each with its own remedy", async () => {
    const key = await issue(database, { expiresAt: after(2), monthlyLimit: 0 });
    expect((await explain(key, 1)).key.obstacles).toEqual(["quota_used_up"]);
    expect(await explain(key, 3)).toMatchObject({
      key: { state: "expired", obstacles: ["expired", "quota_used_up"] },
      since: after(2),
      change: null,
    });
    await suspendKey(createLicenseChanges(database), uuidOf(key), by(1));
    expect((await explain(key, 3)).key.obstacles).toEqual(["suspended", "expired", "quota_used_up"]);
  });

  test("distinguishes a rotated key whose overlap has ended from a key whose license has expired", async () => {
    const old = await issue(database, { expiresAt: after(48) });
    const request = { uuid: uuidOf(old), mode: "live", overlapMs: HOUR_MS } as const;
    const rotated = await rotateKey(createLicenseChanges(database), request, { brand: BRAND, ...by(1) });
    const id = "apiKey" in rotated ? rotated.id : "";
    expect(await explain(old, 1.5)).toMatchObject({ key: { replacedBy: id, obstacles: [] } });
    expect(await explain(old, 3)).toMatchObject({ since: after(2), key: { obstacles: ["replaced"] } });
    expect((await explain({ id }, 49)).key.obstacles).toEqual(["expired"]);
  });

  test("returns undefined for a key that does not exist", async () => {
    expect(await explainKey(database, "00000000-0000-7000-8000-000000000000", { now: NOW })).toBeUndefined();
  });
});
