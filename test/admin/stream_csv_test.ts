import { describe, expect, test } from "bun:test";
import { createCsvInFlight, streamCsv } from "../../src/admin/frame/stream_csv.ts";
import { silentLog } from "../../src/log.ts";
import { isRefusal } from "../../src/refusal.ts";
import { createTestClock } from "../support/clock.ts";

async function* endless(): AsyncGenerator<string, undefined> {
  for (let number = 1; ; number++) yield `${number}\r\n`;
}

async function* two(): AsyncGenerator<string, undefined> {
  yield "1\r\n";
  yield "2\r\n";
}

// biome-ignore lint/correctness/useYield: its first part fails.
async function* failed(): AsyncGenerator<string, undefined> {
  throw new Error("The database went away");
}

describe("streamCsv()", () => {
  test("streamCsv() refuses an operator a fourth list, and all a ninth, until one has ended: received, abandoned or failed", async () => {
    const clock = createTestClock();
    const options = { log: silentLog, clock, csvInFlight: createCsvInFlight() };
    const start = (name: string, parts: AsyncGenerator<string, undefined> = endless()) =>
      streamCsv({ name: "numbers", parts }, { options, actor: { kind: "operator", name } });
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
    const short = await start("olga", two());
    expect(isRefusal(short) || (await short.text())).toBe("1\r\n2\r\n");
    expect((await fill("olga")).started).toHaveLength(1);

    await started[2]?.body?.cancel();
    clock.advance(1_000);
    const failing = start("olga", failed());
    expect(await failing.catch((error: Error) => error.message)).toBe("The database went away");
    expect((await fill("olga")).started).toHaveLength(1);
  });
});
