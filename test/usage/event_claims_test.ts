/** How the event writer treats events with the same claim that arrive together. */
import { describe, expect, test } from "bun:test";
import { DatabaseUnavailable } from "../../src/database/mod.ts";
import { usageEvent } from "../support/events.ts";
import { startFaultyProxy } from "../support/faulty_proxy.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/use.ts";
import { failureOf, sameClaim, startWriter } from "./writer_kit.ts";

const server = useTestDatabase();

describe("createEventWriter()", () => {
  test("write() fails all events with the same claim within 2 s, whatever their fields", async () => {
    const proxy = await startFaultyProxy(server.address);
    const { writer, licenseUuid, unknown, deadlines } = await startWriter(server, { through: proxy.address });
    await writer.write(usageEvent({ licenseUuid }));
    proxy.set("stalled");
    deadlines.length = 0;
    const failures = await Promise.all(
      sameClaim(licenseUuid, [{}, {}, {}, {}]).map((event) => failureOf(writer.write(event))),
    );
    expect(deadlines).toEqual([2_000]);
    for (const failure of failures) expect(failure).toBeInstanceOf(DatabaseUnavailable);
    // The other events were never sent.
    expect(unknown).toEqual([licenseUuid]);
    expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0 });
    await proxy.close();
  });

  test("write() counts the wait for another event with the same claim as a wait", async () => {
    const proxy = await startFaultyProxy(server.address);
    const { writer, licenseUuid, clock } = await startWriter(server, {
      through: proxy.address,
      monthlyLimit: 1,
    });
    await writer.write(usageEvent({ licenseUuid }));
    proxy.set("stalled");
    const events = sameClaim(licenseUuid, [{}, { type: "error" }]);
    const outcomes = Promise.allSettled(events.map((event) => writer.write(event)));
    await until(() => writer.stats().queued === 1);
    clock.advance(1_400);
    proxy.set("none");
    // The refused event leaves no claim, so the second would be stored if there were time.
    expect(await outcomes).toMatchObject([
      { status: "fulfilled", value: { kind: "quota_exceeded" } },
      { status: "rejected", reason: expect.any(DatabaseUnavailable) },
    ]);
    expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0, turnedAway: 1 });
    await proxy.close();
  });

  test("write() answers other events with the same claim without another statement", async () => {
    const { writer, licenseUuid } = await startWriter(server);
    const events = sameClaim(licenseUuid, Array(5).fill({}));
    const outcomes = await Promise.all(events.map((event) => writer.write(event)));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["committed", ...Array(4).fill("claim_mismatch")]);
    expect(writer.stats()).toMatchObject({ commits: 1, queued: 0, queuedBytes: 0 });
  });

  test("write() stores the first event with a claim that the database and the quota accept", async () => {
    const { writer, licenseUuid } = await startWriter(server, { monthlyLimit: 0 });
    const bad = { type: "error", durationMs: -1 } as const;
    const events = sameClaim(licenseUuid, [{}, bad, { type: "error" }, {}, {}, {}]);
    const outcomes = await Promise.all(events.map((event) => writer.write(event)));
    const kinds = ["quota_exceeded", "not_storable", "committed", ...Array(3).fill("claim_mismatch")];
    expect(outcomes.map(({ kind }) => kind)).toEqual(kinds);
    expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0 });
  });

  test("write() turns away events when 20,000 events or 64 MiB wait for one claim", async () => {
    for (const [count, taken, fields] of [
      [20_050, 20_000, {}],
      [70, 64, { errorMessage: "x".repeat(1024 * 1024 - 300) }],
    ] as const) {
      const { writer, licenseUuid } = await startWriter(server);
      const events = sameClaim(licenseUuid, Array(count).fill(fields));
      const outcomes = Promise.allSettled(events.map((event) => writer.write(event)));
      expect(writer.stats()).toMatchObject({ queued: taken, turnedAway: count - taken });
      const turnedAway = (await outcomes).flatMap(({ status }, i) => (status === "rejected" ? [i] : []));
      expect(turnedAway).toEqual(Array.from({ length: count - taken }, (_, i) => taken + i));
      expect(writer.stats()).toMatchObject({ queued: 0, queuedBytes: 0 });
    }
  });

  test("stop() waits for events that wait for their claim", async () => {
    const { writer, licenseUuid } = await startWriter(server, { monthlyLimit: 0 });
    const events = sameClaim(licenseUuid, [{}, { type: "error" }]);
    const outcomes = Promise.all(events.map((event) => writer.write(event)));
    await writer.stop(5_000);
    expect((await outcomes).map(({ kind }) => kind)).toEqual(["quota_exceeded", "committed"]);
  });
});
