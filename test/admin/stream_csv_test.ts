import { describe, expect, test } from "bun:test";
import { createCsvInFlight, streamCsv } from "../../src/admin/frame/stream_csv.ts";
import type { Right } from "../../src/audit/mod.ts";
import { createLog, silentLog } from "../../src/base/log.ts";
import { isRefusal } from "../../src/base/refusal.ts";
import { issueToken, revokeToken, rightOfToken } from "../../src/operators/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { useDatabase } from "../support/use.ts";

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

const database = useDatabase();
const RIGHT: Right = { holds: (sql) => sql`true`, lost: { code: "NOT_ALLOWED", why: "it was lost" } };

describe("streamCsv()", () => {
  test("streamCsv() refuses an operator a fourth list, and all a ninth, until one has ended: received, abandoned or failed", async () => {
    const clock = createTestClock();
    const options = { log: silentLog, clock, database, csvInFlight: createCsvInFlight() };
    const start = (name: string, parts: AsyncGenerator<string, undefined> = endless()) =>
      streamCsv({ name: "numbers", parts }, { options, actor: { kind: "operator", name }, right: RIGHT });
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

  test("ends when the right to the list is lost, and says so in the log", async () => {
    const clock = createTestClock();
    const lines: string[] = [];
    const log = createLog({ format: "json", clock, write: (line) => void lines.push(line) });
    const by = { brand: BRAND, actor: ACTOR, now: clock.now() };
    const wanted = { name: "reader", scopes: ["usage:read"], restriction: {} } as const;
    const { token } = orThrow(await issueToken(database, wanted, by));
    const options = { log, clock, database, csvInFlight: createCsvInFlight() };
    const reader = {
      options,
      actor: { kind: "token", name: "reader" },
      right: rightOfToken(token, "usage:read"),
    } as const;
    const answer = orThrow(await streamCsv({ name: "numbers", parts: endless() }, reader));
    const body = answer.body?.getReader();
    for (const _ of [1, 2, 3]) expect((await body?.read())?.done).toBe(false);
    orThrow(await revokeToken(database, "reader", by));
    const readOn = async () => {
      // What was read before is sent.
      for (let part = 0; part < 5; part++) await body?.read();
    };
    await expect(readOn()).rejects.toThrow("the token was revoked");
    expect(lines.join()).toContain("A CSV ended too early");
  });
});
