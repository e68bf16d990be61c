/** Proves that a report of 100,000 events is imported once within ten seconds: `bun test ./test/usage/reports/large_report_proof.ts`. */
import { expect, test } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import { importReport, parseReport } from "../../../src/usage/mod.ts";
import { MUCH_ROOM, readSums } from "../../support/events.ts";
import { ACTOR, issue, NOW } from "../../support/issue.ts";
import { useDatabase } from "../../support/use.ts";
import { createJournal, reportKeyOf } from "./report_kit.ts";

const database = useDatabase();
const EVENTS = 100_000;
const MOST_MS = 10_000;

test("importReport() imports 100,000 events once within ten seconds", async () => {
  const { licenseUuid } = await issue(database, { monthlyLimit: 60_000 });
  const events = Array.from({ length: EVENTS }, (_, index) => ({
    idempotency_key: `event-${index}`,
    occurred_at: new Date(NOW.getTime() - 86_400_000 - (index % 80_000) * 1_000).toISOString(),
    event_type: "inference",
    inference_type: "streaming",
    model_name: "motor_imagery_4class_v1",
    duration_ms: 12.5,
    metadata: { channels: 8 },
  }));
  const counts = new Map<string, number>();
  for (const { occurred_at } of events) {
    const day = occurred_at.slice(0, 10);
    counts.set(day, (counts.get(day) ?? 0) + 1);
  }
  const days = [...counts].map(([day, count]) => ({ day, model_name: "motor_imagery_4class_v1", count }));
  const text = createJournal(licenseUuid).next({ days, events });
  const options = { actor: ACTOR, now: NOW, textBounds: MUCH_ROOM };
  const times: number[] = [];
  for (const outcome of ["imported", "known"]) {
    const beganMs = performance.now();
    const report = await parseReport(text, reportKeyOf);
    if (isRefusal(report)) throw new Error(report.sentence);
    const parsedMs = performance.now() - beganMs;
    const result = await importReport(database, report, options);
    expect(isRefusal(result) ? result.sentence : result.outcome).toBe(outcome);
    times.push(performance.now() - beganMs);
    console.log(`${outcome}: parsed in ${parsedMs.toFixed(0)} ms, all in ${times.at(-1)?.toFixed(0)} ms`);
  }
  console.log(`${(text.length / 1e6).toFixed(1)} MB`);
  expect(Math.max(...times)).toBeLessThan(MOST_MS);
  const { used, byDay, stored } = await readSums(database, licenseUuid);
  expect({ used, byDay, stored }).toEqual({ used: 60_000, byDay: 60_000, stored: EVENTS });
}, 120_000);
