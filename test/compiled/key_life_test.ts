/**
 * Tests every change of a key by the executable's commands: over HTTP within a second, and in the audit
 * log.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { until } from "../support/until.ts";
import { type Installed, type Issued, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

interface AuditRow {
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly before: object | null;
  readonly after: object | null;
  readonly reason: string | null;
}

const DAY_MS = 86_400_000;

describe.skipIf(!isBuilt)("the executable's commands", () => {
  let installed: Installed;

  beforeAll(async () => {
    installed = install();
    await installed.start();
  });
  afterAll(() => installed.remove());

  /** Newest first. */
  const auditOf = (key: Issued, ...conditions: string[]): Promise<AuditRow[]> =>
    installed.json(["audit", "--key", key.id, ...conditions]);
  const idsOf = async (...conditions: string[]): Promise<string[]> =>
    (await installed.json(["keys", "list", ...conditions])).map(({ id }: Issued) => id);
  const log = (key: Issued) =>
    installed.post("/v1/analytics/log", { api_key: key.api_key, event_type: "inference" });

  test("suspend and resume a key", async () => {
    const key = await installed.issue();
    expect((await installed.validate(key)).status).toBe(200);
    await installed.json(["keys", "suspend", key.id, "--reason", "invoice open"]);
    await installed.expectWithinASecond(key, { status: 401, code: "INVALID_KEY" });
    await installed.json(["keys", "resume", key.id]);
    await installed.expectWithinASecond(key, { status: 200, valid: true });
    const actor = expect.stringMatching(/^command:./);
    expect(await auditOf(key)).toMatchObject([
      {
        action: "key.resume",
        actor,
        before: { state: "suspended" },
        after: { state: "active" },
        reason: null,
      },
      { action: "key.suspend", actor, after: { state: "suspended" }, reason: "invoice open" },
      { action: "key.issue", actor, before: null },
    ]);
  });

  test("renew an expired key", async () => {
    const key = await installed.issue("--expires-at", new Date(Date.now() + 5_000).toISOString());
    expect((await installed.validate(key)).status).toBe(200);
    await until(async () => (await installed.validate(key)).body.code === "KEY_EXPIRED");
    await installed.json(["keys", "renew", key.id, "--expires-at", "2099-01-01"]);
    await installed.expectWithinASecond(key, { status: 200, expires_at: "2099-01-01T00:00:00Z" });
    expect((await auditOf(key))[0]).toMatchObject({ action: "license.renew" });
  });

  test("change the tier and limit of a cached key", async () => {
    const key = await installed.issue();
    expect((await installed.validate(key)).body.quota.monthly_limit).toBe(50_000);
    await installed.json(["keys", "tier", key.id, "enterprise"]);
    await installed.expectWithinASecond(key, {
      license_type: "enterprise",
      quota: { monthly_limit: null, remaining: null },
    });
    await installed.json(["keys", "limit", key.id, "2"]);
    await installed.expectWithinASecond(key, { quota: { monthly_limit: 2, remaining: 2 } });
    expect([(await log(key)).status, (await log(key)).status, (await log(key)).status]).toEqual([
      202, 202, 429,
    ]);
    await installed.json(["keys", "limit", key.id, "none"]);
    await installed.expectWithinASecond(key, { status: 200, quota: { monthly_limit: null, used: 2 } });
    expect((await auditOf(key)).map(({ action }) => action)).toEqual([
      "license.limit",
      "license.limit",
      "license.tier",
      "key.issue",
    ]);
  });

  test("rotate a key, with an overlap and without", async () => {
    const first = await installed.issue();
    const second: Issued = await installed.json(["keys", "rotate", first.id, "--overlap", "2d"]);
    await installed.expectWithinASecond(second, { status: 200, email: first.email });
    expect((await log(second)).status).toBe(202);
    const { body } = await installed.validate(first);
    const daysLeft = (new Date(body.expires_at).getTime() - Date.now()) / DAY_MS;
    expect({ used: body.quota.used, daysLeft }).toEqual({ used: 1, daysLeft: expect.closeTo(2, 2) });
    const third: Issued = await installed.json(["keys", "rotate", second.id, "--overlap", "0d"]);
    await installed.expectWithinASecond(second, { status: 401, code: "KEY_EXPIRED" });
    expect((await installed.validate(third)).status).toBe(200);
    expect((await auditOf(first))[0]).toMatchObject({
      action: "key.rotate",
      after: { replaced_by: second.id },
    });
    expect((await auditOf(second)).map(({ action }) => action)).toEqual(["key.rotate", "key.issue"]);
  });

  test("revoke a key for good, as HTTP does", async () => {
    const [byCommand, overHttp] = [await installed.issue(), await installed.issue()];
    for (const key of [byCommand, overHttp]) expect((await installed.validate(key)).status).toBe(200);
    await installed.json(["keys", "revoke", byCommand.id, "--reason", "left"]);
    await installed.expectWithinASecond(byCommand, { status: 401, code: "INVALID_KEY" });
    const body = { api_key: overHttp.api_key, reason: `found ${overHttp.api_key} in a log` };
    expect(await installed.post("/v1/auth/revoke", body)).toMatchObject({ body: { revoked: true } });
    expect((await installed.validate(overHttp)).status).toBe(401);
    expect((await auditOf(byCommand))[0]).toMatchObject({ action: "key.revoke", reason: "left" });
    const [row] = await auditOf(overHttp);
    expect(row).toMatchObject({ action: "key.revoke", actor: expect.stringMatching(/^http/) });
    expect(row?.reason).toMatch(/^found .* in a log$/);
    expect(row?.reason).not.toContain(overHttp.api_key.slice(9));
    const { status, err } = await installed.run(["keys", "resume", byCommand.id]);
    expect({ status, err }).toEqual({
      status: 1,
      err: expect.stringContaining("the key is revoked for good"),
    });
  });

  test("list keys by account, tier, state, mode, expiry and last use", async () => {
    const soon = new Date(Date.now() + 5 * DAY_MS).toISOString();
    const key = await installed.issue("--mode", "test", "--expires-at", soon);
    const account = ["--account", key.email];
    const all = ["--tier", "research", "--mode", "test", "--state", "active"];
    expect(await idsOf(...account, ...all, "--expiring-within", "6", "--unused-for", "0")).toEqual([key.id]);
    for (const other of [
      ["--tier", "free"],
      ["--mode", "live"],
      ["--state", "suspended"],
      ["--expiring-within", "4"],
      ["--unused-for", "1"],
    ]) {
      expect(await idsOf(...account, ...other)).toEqual([]);
    }
  });

  test("show the use by day, export the month for accounting, and erase a person but not the counts", async () => {
    const key = await installed.issue("--name", "Ada Lovelace", "--organization", 'Say "hi", Inc.');
    for (let count = 0; count < 3; count++) expect((await log(key)).status).toBe(202);
    const today = new Date().toISOString().slice(0, 10);
    const exported = async () =>
      (await installed.run(["usage", "export", "--month", today.slice(0, 7), "--csv"])).out.split("\r\n");
    const { used, days } = await installed.json(["keys", "usage", key.id]);
    expect(used).toBe(3);
    expect(days).toContainEqual({ day: today, used: 3 });
    const rowOf = async () => (await exported()).find((row) => row.includes(key.user_id));
    expect((await exported())[0]).toBe(
      "month,license_id,user_id,email,organization,tier,mode,monthly_limit,used,external_id",
    );
    expect(await rowOf()).toEndWith(`,${key.email},"Say ""hi"", Inc.",research,live,50000,3,`);

    const tooEarly = await installed.run(["accounts", "erase", key.email]);
    expect(tooEarly.err).toContain("a key of it is not revoked");
    await installed.json(["keys", "revoke", key.id]);
    await installed.json(["accounts", "erase", key.email, "--reason", "asked for it"]);
    expect(await rowOf()).toEndWith(",research,live,50000,3,");
    const seen = JSON.stringify([
      await installed.json(["accounts", "list"]),
      await installed.json(["keys", "list"]),
      await installed.json(["audit", "--limit", "1000"]),
      await exported(),
    ]);
    for (const personal of [key.email, "Lovelace", "Say "]) expect(seen).not.toContain(personal);
    const [erased] = await installed.json(["audit", "--account", key.user_id, "--limit", "1"]);
    expect(erased).toMatchObject({ action: "account.erase", reason: "asked for it" });
  });

  test("show the audit log by time, key and account", async () => {
    const [one, other] = [await installed.issue(), await installed.issue()];
    await installed.json(["keys", "suspend", one.id]);
    expect((await auditOf(one)).map(({ action }) => action)).toEqual(["key.suspend", "key.issue"]);
    expect((await auditOf(other)).map(({ action }) => action)).toEqual(["key.issue"]);
    expect(await installed.json(["audit", "--account", one.user_id])).toHaveLength(2);
    const later = new Date(Date.now() + 1_000).toISOString();
    expect(await auditOf(one, "--until", later)).toHaveLength(2);
    expect(await auditOf(one, "--since", later)).toHaveLength(0);
    expect(await auditOf(one, "--limit", "1")).toHaveLength(1);
  });
});
