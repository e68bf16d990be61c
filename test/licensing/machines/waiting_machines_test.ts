/** The memory of a process about machines that wait: when each of them may ask again, and when the database is asked. */
import { describe, expect, test } from "bun:test";
import { refuse } from "../../../src/base/refusal.ts";
import { createWaitingMachines } from "../../../src/licensing/machines/mod.ts";
import { createTestClock } from "../../support/clock.ts";

const FULL = refuse("MACHINE_LIMIT_REACHED", "Every place is taken", { machines: { limit: 1, used: 1 } });
const SECOND_MS = 1_000;

function start(activationsAMinute = 60) {
  const clock = createTestClock(undefined, { stands: true });
  const waiting = createWaitingMachines(clock);
  const record = {};
  const machine = (name: string, licenseUuid = "license") => ({
    licenseUuid,
    hash: `${licenseUuid} ${name}`,
  });
  /** The machine asks, and the database says that the license is full. Returns the time to wait. */
  const refuseBy = (
    name: string,
    { room, of = record, limit = activationsAMinute }: { room?: number; of?: object; limit?: number } = {},
  ) => {
    const refusal =
      room === undefined
        ? FULL
        : refuse(FULL.code, FULL.sentence, { machines: { limit: 1, used: 1 }, retryAfterSeconds: room });
    const asking = { record: of, activationsAMinute: limit, askedMs: clock.monotonicMs() };
    return waiting.noteRefusal(machine(name), refusal, asking).retryAfterSeconds;
  };
  const fromMemory = (name: string, of: object = record) =>
    waiting.findRefusal(machine(name), { record: of, activationsAMinute });
  return { clock, waiting, record, machine, refuseBy, fromMemory };
}

describe("createWaitingMachines()", () => {
  test("refuses a machine again from memory, with the same facts, and no machine that was not refused", () => {
    const { refuseBy, fromMemory } = start();
    refuseBy("a");
    expect(fromMemory("a")).toMatchObject({
      code: FULL.code,
      sentence: FULL.sentence,
      machines: FULL.machines,
    });
    expect(fromMemory("b")).toBeUndefined();
  });

  test("asks the database again when the license has changed, and a second before the first place can end", () => {
    const { clock, refuseBy, fromMemory } = start();
    refuseBy("a", { room: 300 });
    expect(fromMemory("a", {})).toBeUndefined();
    clock.advance(299 * SECOND_MS - 1);
    expect(fromMemory("a")).toBeDefined();
    clock.advance(1);
    expect(fromMemory("a")).toBeUndefined();
  });

  test("gives a lone machine ten seconds, and one moment each to those that wait with it, two seconds apart", () => {
    const { refuseBy } = start();
    const names = Array.from({ length: 15 }, (_, index) => `machine ${index}`);
    const waits = names.map((name) => refuseBy(name));
    expect(waits).toEqual(names.map((_, index) => 10 + 2 * index));
    expect(start().refuseBy("a", { room: 300 })).toBe(10);
  });

  test("lets the machines ask half as often together as the key may, however many wait", () => {
    for (const [limit, count] of [
      [60, 1_000],
      [60, 20],
      [600, 1_000],
      [0, 1_000],
    ] as const) {
      const { clock, refuseBy, fromMemory } = start(limit);
      const asksAt = Array.from({ length: count }, (_, index) => (refuseBy(`${index}`) ?? 0) * SECOND_MS);
      const began = clock.monotonicMs();
      const minutes = 60;
      let asked = 0;
      // The first round is the one in which they got their moments.
      while (clock.monotonicMs() - began < minutes * 60_000) {
        clock.advance(SECOND_MS);
        const at = clock.monotonicMs() - began;
        for (let index = 0; index < count; index++) {
          if (at < (asksAt[index] ?? 0)) continue;
          asked++;
          asksAt[index] = at + (fromMemory(`${index}`)?.retryAfterSeconds ?? Number.NaN) * SECOND_MS;
        }
      }
      expect([limit, count, asked / minutes]).toEqual([limit, count, expect.any(Number)]);
      const most = limit === 0 ? 600 : limit / 2;
      expect(asked / minutes).toBeWithin(most * 0.8, most + 1);
    }
  });

  test("lets a machine that asks too early keep its moment, so that it does not delay the others", () => {
    const { clock, refuseBy, fromMemory } = start();
    refuseBy("hasty");
    for (let times = 0; times < 9; times++) {
      clock.advance(SECOND_MS);
      expect(fromMemory("hasty")?.retryAfterSeconds).toBe(9 - times);
    }
    // Also if the database is asked because the license has changed.
    expect(refuseBy("hasty", { of: {} })).toBe(1);
    expect(refuseBy("other")).toBe(10);
  });

  test("puts the moments closer together when the limit of a license has grown", () => {
    const { refuseBy } = start();
    expect(["a", "b", "c"].map((name) => refuseBy(name))).toEqual([10, 12, 14]);
    const grown = Array.from({ length: 500 }, (_, index) => refuseBy(`machine ${index}`, { limit: 1_000 }));
    expect(grown.at(-1)).toBe(14 + 500 * (60 / 500));
  });

  test("never tells a machine to wait longer than an hour, and counts each license alone", () => {
    const { clock, waiting, machine, record, refuseBy } = start();
    const waits = Array.from({ length: 2_000 }, (_, index) => refuseBy(`${index}`) ?? 0);
    expect(Math.max(...waits)).toBe(3_600);
    const askedMs = clock.monotonicMs();
    expect(
      waiting.noteRefusal(machine("a", "other"), FULL, { record, activationsAMinute: 60, askedMs })
        .retryAfterSeconds,
    ).toBe(10);
  });
});
