/** The room for texts of events, as clients and operators see it. `usage/text_room_test.ts` has the bounds themselves. */
import { describe, expect, test } from "bun:test";
import { newUuid } from "../../src/base/ids.ts";
import { parseExposition } from "../support/exposition.ts";
import { ON_NODE, startTestService, type TestService } from "../support/service.ts";
import { useForAll, useTestService } from "../support/use.ts";

const config = {
  // The setting has whole megabytes, which the service on Node reads.
  ...(!ON_NODE && { textBounds: { licenseBytes: 20_000, installationBytes: 1e9 } }),
  metricsListen: { host: "127.0.0.1", port: 0 },
};
const service = useTestService({ config });
/** A second service on the same database, like another process of one installation. */
const other = useForAll(() => startTestService({ on: service.testDatabase, config }));

interface LogOptions {
  readonly claim?: string;
  readonly at?: TestService;
}

function log(apiKey: string, fields: object, { claim, at = service }: LogOptions = {}) {
  const event = { api_key: apiKey, event_type: "inference", ...fields };
  return at.post("/v1/analytics/log", event, claim === undefined ? {} : { "Idempotency-Key": claim });
}

const metadataOf = (bytes: number) => ({ metadata: { text: "x".repeat(bytes) } });

describe.skipIf(ON_NODE)("POST /v1/analytics/log", () => {
  test("answers truncated for an event whose texts have no room, in every process, and counts it", async () => {
    const { apiKey, licenseUuid } = await service.issue({ monthlyLimit: 10 });
    expect((await log(apiKey, metadataOf(15_000))).body).not.toHaveProperty("truncated");
    const second = await log(apiKey, metadataOf(15_000), { at: other });
    expect(second.status).toBe(202);
    expect(second.body).toEqual({
      logged: true,
      event_id: expect.any(String),
      quota: { used: 2, remaining: 8 },
      truncated: true,
    });
    expect((await log(apiKey, { error_message: "x" })).body).toMatchObject({ truncated: true });
    // It has nothing that could be left out.
    const bare = await log(apiKey, { model_name: "p300_binary_v1" });
    expect(bare.body).toEqual({
      logged: true,
      event_id: expect.any(String),
      quota: { used: 4, remaining: 6 },
    });
    const [row] = await service.database.query<{ stored: number; texts: number; size: number }>(
      (sql) => sql`
        select count(*) as stored, count(metadata) + count(error_message) as texts,
               sum(pg_column_size(metadata))::bigint as size
          from events where license_id = ${licenseUuid}::uuid`,
    );
    expect(row).toMatchObject({ stored: 4, texts: 1 });
    expect(row?.size).toBeLessThan(20_000);
  });

  test("answers truncated again for the same event with its Idempotency-Key, and compares events as they were sent", async () => {
    const { apiKey } = await service.issue();
    const claimed = (claim: string, bytes: number, at = service) =>
      log(apiKey, metadataOf(bytes), { claim, at });
    const whole = await claimed("whole", 15_000);
    const cut = await claimed("cut", 15_000);
    expect([whole.body.truncated, cut.body.truncated]).toEqual([undefined, true]);
    for (const at of [service, other]) {
      expect((await claimed("cut", 15_000, at)).body).toMatchObject({
        event_id: cut.body.event_id,
        truncated: true,
      });
      expect((await claimed("whole", 15_000, at)).body).not.toHaveProperty("truncated");
      const different = await claimed("cut", 14_999, at);
      expect(different.status).toBe(422);
      expect(different.body.error).toContain("whose metadata differs");
    }
  });

  test("answers truncated to all copies of an event that arrive at the same time", async () => {
    const { apiKey } = await service.issue();
    await log(apiKey, metadataOf(15_000));
    const claim = newUuid();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        log(apiKey, metadataOf(15_000), { claim, at: index % 2 === 0 ? service : other }),
      ),
    );
    expect(new Set(answers.map(({ body }) => body.event_id)).size).toBe(1);
    expect(answers.map(({ body }) => body.truncated)).toEqual(Array(20).fill(true));
  });

  test("counts the events without texts in a metric", async () => {
    const read = async () => {
      const answer = await fetch(`http://127.0.0.1:${service.service.metrics?.port}/metrics`);
      const metric = parseExposition(await answer.text()).get("claviger_events_truncated_total");
      return metric?.samples.get("claviger_events_truncated_total{}") ?? Number.NaN;
    };
    const before = await read();
    const { apiKey } = await service.issue();
    for (let times = 0; times < 3; times++) await log(apiKey, metadataOf(15_000));
    expect((await read()) - before).toBe(2);
  });
});
