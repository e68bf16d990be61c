import { describe, expect, test } from "bun:test";
import { createCsvInFlight, streamCsv } from "../../src/admin/stream_csv.ts";
import { silentLog } from "../../src/log.ts";
import { isRefusal } from "../../src/refusal.ts";
import { createTestClock } from "../support/clock.ts";

describe("streamCsv()", () => {
  test("streamCsv() refuses an operator a fourth list, and all a ninth, until one has ended: received, abandoned or failed", async () => {
    const clock = createTestClock();
    const options = { log: silentLog, clock, csvInFlight: createCsvInFlight() };
    const start = (name: string, list: Partial<Parameters<typeof streamCsv<number>>[0]> = {}) =>
      streamCsv<number>(
        {
          name: "numbers",
          heading: "number\r\n",
          read: async (_, limit) => Array.from({ length: limit }, (_, index) => index),
          positionOf: String,
          render: (rows) => rows.join("\r\n"),
          ...list,
        },
        { options, actor: { kind: "operator", name } },
      );
    const fill = async (name: string) => {
      clock.advance(1_000);
      const started: Response[] = [];
      for (;;) {
        const answer = await start(name);
        if (isRefusal(answer)) return { started, refusal: answer };
        started.push(answer);
      }
    };

    const { started } = await fill("olga");
    expect(started).toHaveLength(3);
    expect((await fill("emil")).started).toHaveLength(3);
    const { started: last, refusal } = await fill("vera");
    expect(last).toHaveLength(2);
    expect(refusal).toMatchObject({ code: "RATE_LIMIT_EXCEEDED", retryAfterSeconds: 5 });

    await started[0]?.body?.cancel();
    expect((await fill("olga")).started).toHaveLength(1);

    await started[1]?.body?.cancel();
    clock.advance(1_000);
    const short = await start("olga", { read: async () => [1, 2] });
    expect(isRefusal(short) || (await short.text())).toBe("number\r\n1\r\n2");
    expect((await fill("olga")).started).toHaveLength(1);

    await started[2]?.body?.cancel();
    clock.advance(1_000);
    const failing = start("olga", { read: () => Promise.reject(new Error("The database went away")) });
    expect(await failing.catch((error: Error) => error.message)).toBe("The database went away");
    expect((await fill("olga")).started).toHaveLength(1);
  });
});
