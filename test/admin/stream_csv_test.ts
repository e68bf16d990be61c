import { describe, expect, test } from "bun:test";
import { createCsvInFlight, streamCsv } from "../../src/admin/frame/stream_csv.ts";
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

  test("streamCsv() reads few rows before the answer begins, and many at once after that", async () => {
    const limits: number[] = [];
    const rows = 2_500;
    const answer = await streamCsv<number>(
      {
        name: "numbers",
        heading: "",
        read: async (after, limit) => {
          limits.push(limit);
          const from = after === undefined ? 0 : Number(after) + 1;
          return Array.from({ length: Math.min(limit, rows - from) }, (_, index) => from + index);
        },
        positionOf: String,
        render: (part) => part.map((row) => `${row}\n`).join(""),
      },
      {
        options: { log: silentLog, clock: createTestClock(), csvInFlight: createCsvInFlight() },
        actor: { kind: "operator", name: "olga" },
      },
    );
    if (isRefusal(answer)) throw new Error(answer.sentence);
    const numbers = (await answer.text()).trim().split("\n").map(Number);
    expect(numbers).toEqual(Array.from({ length: rows }, (_, index) => index));
    expect(limits).toEqual([100, 1_000, 1_000, 1_000]);
  });
});
