/**
 * Proves with a million altered reports that none is accepted, and that time and memory stay bounded:
 * `bun test ./test/usage/reports/alterations_proof.ts`.
 */
import { expect, test } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import { parseReport } from "../../../src/usage/mod.ts";
import { alterations } from "./alterations.ts";
import { HEADER, payloadOf, reportKeyOf, signReport } from "./report_kit.ts";

const licenseUuid = "019a0000-0000-7000-8000-000000000001";
const COUNT = Number(process.env.ALTERATIONS ?? 1_000_000);
const MB = 1024 * 1024;

test("parseReport() accepts none of a million altered reports", async () => {
  const text = signReport(payloadOf({ licenseUuid }), { licenseUuid });
  expect(isRefusal(await parseReport(text, reportKeyOf))).toBe(false);
  const beganMs = performance.now();
  let longestMs = 0;
  let most = 0;
  let made = 0;
  for (const altered of alterations(text, { seed: 50, count: COUNT })) {
    const atMs = performance.now();
    const report = await parseReport(altered, reportKeyOf);
    longestMs = Math.max(longestMs, performance.now() - atMs);
    if (!isRefusal(report)) throw new Error(`Accepted: ${JSON.stringify(altered)}`);
    if (++made % 10_000 === 0) most = Math.max(most, process.memoryUsage().rss);
  }
  console.log(
    `${made} altered reports in ${((performance.now() - beganMs) / 1_000).toFixed(1)} s, the slowest in ` +
      `${longestMs.toFixed(1)} ms, at most ${Math.round(most / MB)} MB`,
  );
  expect(made).toBe(COUNT);
  expect(longestMs).toBeLessThan(2_000);
  expect(most).toBeLessThan(1_000 * MB);
}, 600_000);

test("parseReport() reads hostile texts of the greatest size in bounded time", async () => {
  const head = Buffer.from(JSON.stringify(HEADER)).toString("base64url");
  const size = 32 * MB - 100;
  const body = (bytes: Buffer) => `${head}.${bytes.toString("base64url")}.${"A".repeat(43)}`;
  const inside = Math.floor((size - head.length - 45) / 4) * 3;
  const names = '"license_id":"lic_019a0000000070008000000000000001","machine":"';
  for (const hostile of [
    "[".repeat(size),
    ".".repeat(size),
    "A".repeat(size + 200),
    `${head}.${"A".repeat(size - 200)}.${"A".repeat(43)}`,
    body(Buffer.alloc(inside, "[")),
    body(Buffer.alloc(inside, '"license_id" : ')),
    body(Buffer.alloc(inside, '{"machine":"0')),
    body(Buffer.concat([Buffer.from(`{${names}${"0".repeat(64)}",`), Buffer.alloc(inside - 200, "[")])),
  ]) {
    const beganMs = performance.now();
    expect(isRefusal(await parseReport(hostile, reportKeyOf))).toBe(true);
    expect(performance.now() - beganMs).toBeLessThan(3_000);
  }
});
