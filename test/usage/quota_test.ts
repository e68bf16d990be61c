/** Promise 3 while the limit changes: the month's quota is never exceeded, however many clients send at once. */
import { describe, expect, test } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { readSums } from "../support/events.ts";
import { updateLicense } from "../support/keys.ts";
import { startTestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForAll, useTestService } from "../support/use.ts";

const CLIENTS = 8;

const service = useTestService();
const services = [service, useForAll(() => startTestService({ on: service.testDatabase }))];

/** Sends events from many clients to both services until `isOver`, and counts those that were accepted. */
async function race(
  key: IssuedKey,
  isOver: (sent: number, accepted: number, refused: number) => boolean,
): Promise<number> {
  let accepted = 0;
  let refused = 0;
  let sent = 0;
  const clients = services.flatMap((at) =>
    Array.from({ length: CLIENTS }, async () => {
      while (!isOver(sent++, accepted, refused)) {
        const event = { api_key: key.apiKey, event_type: "inference" };
        const { status, body } = await at.post("/v1/analytics/log", event);
        if (status === 202) accepted++;
        // On a busy machine the pulse may be late.
        else if (body.code === "SERVICE_UNAVAILABLE") await Bun.sleep(20);
        else {
          expect({ status, code: body.code }).toEqual({ status: 429, code: "QUOTA_EXCEEDED" });
          refused++;
        }
      }
    }),
  );
  await Promise.all(clients);
  return accepted;
}

const setLimit = (key: IssuedKey, limit: number) => updateLicense(service, key, { monthly_limit: limit });

describe("POST /v1/analytics/log", () => {
  test("POST /v1/analytics/log accepts events up to the new limit when the limit is raised meanwhile", async () => {
    const key = await service.issue({ monthlyLimit: 50 });
    const seen = { accepted: 0, refused: 0 };
    let isOver = false;
    const racing = race(key, (_, accepted, refused) => {
      Object.assign(seen, { accepted, refused });
      return isOver;
    });
    for (const limit of [50, 80, 130]) {
      await setLimit(key, limit);
      await until(() => seen.accepted >= limit);
      // The quota is used up, and every client is refused.
      const { refused } = seen;
      await until(() => seen.refused >= refused + 4 * CLIENTS);
    }
    isOver = true;
    expect(await racing).toBe(130);
    const sums = await readSums(service.database, key.licenseUuid);
    expect(sums).toEqual({ used: 130, byDay: 130, stored: 130 });
  });

  test("POST /v1/analytics/log accepts no event after the limit is lowered below the use", async () => {
    const key = await service.issue({ monthlyLimit: 1_000_000 });
    let sent = 0;
    const racing = race(key, (count) => {
      sent = count;
      return count >= 1_000;
    });
    await until(() => sent >= 200);
    await setLimit(key, 1);
    // A statement that began before the change may still grant events; later statements grant none.
    const [{ used = 0 } = {}] = await service.database.query<{ used: number }>(
      (sql) => sql`select used from usage where license_id = ${key.licenseUuid}::uuid`,
    );
    const accepted = await racing;
    expect(accepted).toBeLessThanOrEqual(used + 2 * services.length * CLIENTS);
    const sums = await readSums(service.database, key.licenseUuid);
    expect(sums).toEqual({ used: accepted, byDay: accepted, stored: accepted });
    for (const at of services) {
      await at.service.directory.beat();
      const { body } = await at.post("/v1/auth/refresh", { api_key: key.apiKey });
      expect(body.quota).toMatchObject({ monthly_limit: 1, used: accepted, remaining: 0 });
    }
  });
});
