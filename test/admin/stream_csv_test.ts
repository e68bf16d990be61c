import { describe, expect, test } from "bun:test";
import { createCsvInFlight, streamCsv } from "../../src/admin/stream_csv.ts";
import { silentLog } from "../../src/log.ts";
import { isRefusal } from "../../src/refusal.ts";
import { createTestClock } from "../support/clock.ts";

describe("streamCsv()", () => {
  test("streamCsv() refuses a ninth list until one of eight has ended: received, abandoned or failed", async () => {
    const clock = createTestClock();
    const options = { log: silentLog, clock, csvInFlight: createCsvInFlight() };
    const start = (list: Partial<Parameters<typeof streamCsv<number>>[0]> = {}) =>
      streamCsv<number>(
        {
          name: "numbers",
          heading: "number\r\n",
          read: async (_, limit) => Array.from({ length: limit }, (_, index) => index),
          positionOf: String,
          render: (rows) => rows.join("\r\n"),
          ...list,
        },
        options,
      );
    const fill = async () => {
      clock.advance(1_000);
      const started: Response[] = [];
      for (;;) {
        const answer = await start();
        if (isRefusal(answer)) return { started, refusal: answer };
        started.push(answer);
      }
    };

    const { started, refusal } = await fill();
    expect(started).toHaveLength(8);
    expect(refusal).toMatchObject({ code: "RATE_LIMIT_EXCEEDED", retryAfterSeconds: 5 });

    await started[0]?.body?.cancel();
    expect((await fill()).started).toHaveLength(1);

    await started[1]?.body?.cancel();
    clock.advance(1_000);
    const short = await start({ read: async () => [1, 2] });
    expect(isRefusal(short) || (await short.text())).toBe("number\r\n1\r\n2");
    expect((await fill()).started).toHaveLength(1);

    await started[2]?.body?.cancel();
    clock.advance(1_000);
    const failing = start({ read: () => Promise.reject(new Error("The database went away")) });
    expect(await failing.catch((error: Error) => error.message)).toBe("The database went away");
    expect((await fill()).started).toHaveLength(1);
  });
});
