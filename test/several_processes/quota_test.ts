/**
 * Promise 3, between processes: together they accept exactly the month's quota, in spite of races and
 * killed processes.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Database } from "../../src/database/mod.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { EXTENT } from "../evidence/extent.ts";
import { createTestClock } from "../support/clock.ts";
import { readSums } from "../support/events.ts";
import { issue } from "../support/issue.ts";
import { type JsonResponse, startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForAll, useTestService } from "../support/use.ts";
import { createInstallation, type Replica } from "./installation.ts";

/** Clients of each process. README.md names both figures. */
const CLIENTS = EXTENT.quotaClients;
const PROCESSES = EXTENT.quotaProcesses;

type Process = Pick<Replica | TestService, "post">;

interface Outcome {
  accepted: number;
  refused: number;
  /** Requests with an unknown result, because their process was killed. */
  lost: number;
  /** Requests with an unknown result, because a busy machine let the database or the pulse be late: 503. */
  late: number;
}

/** Sends events from all clients until each client was refused, or its process died. */
async function race(processes: readonly Process[], { apiKey }: IssuedKey): Promise<Outcome> {
  const outcome = { accepted: 0, refused: 0, lost: 0, late: 0 };
  const client = async (at: Process) => {
    for (;;) {
      const event = { api_key: apiKey, event_type: "inference" };
      const answer = await at
        .post("/v1/analytics/log", event)
        .catch((): JsonResponse | undefined => undefined);
      if (answer === undefined) {
        outcome.lost++;
        return;
      }
      if (answer.status === 202) outcome.accepted++;
      else if (answer.body.code === "SERVICE_UNAVAILABLE") {
        outcome.late++;
        await Bun.sleep(20);
      } else {
        expect({ status: answer.status, code: answer.body.code }).toEqual({
          status: 429,
          code: "QUOTA_EXCEEDED",
        });
        outcome.refused++;
        return;
      }
    }
  };
  await Promise.all(processes.flatMap((at) => Array.from({ length: CLIENTS }, () => client(at))));
  return outcome;
}

async function countMonths(database: Database, { licenseUuid }: IssuedKey): Promise<number> {
  const rows = await database.query(
    (sql) => sql`select 1 from usage where license_id = ${licenseUuid}::uuid`,
  );
  return rows.length;
}

describe("Two processes", () => {
  const installation = useForAll(createInstallation);
  // The first test sends 1,800 events to two processes: a second on an idle machine, more than 30 s on a busy one.
  setDefaultTimeout(180_000);
  let processes: Replica[];
  beforeAll(async () => {
    processes = await Promise.all(Array.from({ length: PROCESSES }, () => installation.serve()));
  });

  test(`accept exactly the limit of ${CLIENTS} clients each, from the month's first batch on`, async () => {
    const { database } = installation;
    for (const [limit, rounds] of [
      [1, 5],
      [7, 5],
      [100, 5],
      [1_000, 1],
    ] as const) {
      for (let round = 0; round < rounds; round++) {
        const key = await issue(database, { monthlyLimit: limit });
        expect(await countMonths(database, key)).toBe(0);
        const { accepted, refused, lost, late } = await race(processes, key);
        expect({ refused, lost }).toEqual({ refused: PROCESSES * CLIENTS, lost: 0 });
        expect(accepted).toBeWithin(limit - late, limit + 1);
        const sums = await readSums(database, key.licenseUuid);
        expect(sums).toEqual({ used: limit, byDay: limit, stored: limit });
      }
    }
  });

  test("accept no more than the limit though one is killed midway, and the other accepts the rest", async () => {
    const { database } = installation;
    const limit = 1_000;
    for (let round = 0; round < 2; round++) {
      const [other, killed] = [processes[0]!, await installation.serve()];
      const key = await issue(database, { monthlyLimit: limit });
      const racing = race([other, killed], key);
      await until(async () => (await readSums(database, key.licenseUuid)).used >= limit / 4);
      await killed.kill("SIGKILL");
      const { accepted, refused, lost, late } = await racing;
      // The clients of the other process went on until it refused them.
      expect({ refused, lost }).toEqual({ refused: CLIENTS, lost: CLIENTS });
      const sums = await readSums(database, key.licenseUuid);
      expect(sums).toEqual({ used: limit, byDay: limit, stored: limit });
      // Every acknowledged event is counted. Besides acknowledged events, only lost requests may be counted.
      expect(accepted).toBeLessThanOrEqual(limit);
      expect(accepted).toBeGreaterThanOrEqual(limit - lost - late);
    }
  });
});

describe("Two services with one clock", () => {
  const clock = createTestClock("2026-11-30T23:00:00Z");
  const first = useTestService({ clock });
  const second = useForAll(() => startTestService({ clock, on: first.testDatabase }));
  const services = [first, second];
  setDefaultTimeout(180_000);

  test("accept exactly the limit again in the next month, from its first batch on", async () => {
    const { database } = first;
    const keys = await Promise.all([1, 7, 100].map((monthlyLimit) => issue(database, { monthlyLimit })));
    for (const months of [1, 2, 3]) {
      for (const [index, limit] of [1, 7, 100].entries()) {
        const { accepted, late } = await race(services, keys[index]!);
        expect(accepted).toBeWithin(limit - late, limit + 1);
        const sums = await readSums(database, keys[index]!.licenseUuid);
        expect(sums).toEqual({ used: months * limit, byDay: months * limit, stored: months * limit });
      }
      clock.advance(31 * 86_400_000);
      for (const service of services) await service.service.directory.beat();
    }
  });
});
