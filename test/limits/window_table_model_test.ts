/**
 * Random commands against a naive reference; together 100,000 of them, plus 100,000 against a table that is
 * too small. Time moves in jumps that like the edges: parts of a second, and about a minute.
 */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { WindowTable } from "../../src/limits/mod.ts";
import { NaiveWindow } from "./naive_windows.ts";

type Command =
  | { readonly kind: "take" | "record" | "takeAndWait"; readonly key: string }
  | { readonly kind: "advance"; readonly byMs: number };

const commandsPerRun = 500;
const runs = 200;

function commands(keys: readonly string[]): fc.Arbitrary<Command[]> {
  const key = fc.constantFrom(...keys);
  const byMs = fc.oneof(
    { arbitrary: fc.integer({ min: 0, max: 1_100 }), weight: 6 },
    { arbitrary: fc.integer({ min: 0, max: 20_000 }), weight: 3 },
    { arbitrary: fc.integer({ min: 58_900, max: 61_100 }), weight: 1 },
  );
  const command: fc.Arbitrary<Command> = fc.oneof(
    { arbitrary: fc.record({ kind: fc.constant("take" as const), key }), weight: 10 },
    { arbitrary: fc.record({ kind: fc.constant("record" as const), key }), weight: 2 },
    { arbitrary: fc.record({ kind: fc.constant("takeAndWait" as const), key }), weight: 1 },
    { arbitrary: fc.record({ kind: fc.constant("advance" as const), byMs }), weight: 5 },
  );
  return fc.array(command, { minLength: commandsPerRun, maxLength: commandsPerRun });
}

/** A table and the reference beside it; every answer is held against the reference as it is given. */
class Checked {
  nowMs: number;
  readonly #table: WindowTable;
  readonly #limit: number;
  readonly #naive = new Map<string, NaiveWindow>();

  constructor(limit: number, startMs: number) {
    this.#limit = limit;
    this.nowMs = startMs;
    this.#table = new WindowTable(limit, 100);
  }

  take(key: string): { allowed: boolean; retryAfterSeconds: number } {
    const naive = this.#naiveOf(key);
    const roomBefore = naive.countedBySecond(this.nowMs) < this.#limit;
    const mustRefuse = naive.countedWithin(60_000, this.nowMs) >= this.#limit;
    const mustAllow = naive.countedWithin(61_000, this.nowMs) < this.#limit;
    const verdict = this.#table.take(key, this.nowMs);
    if (verdict.allowed) naive.add(this.nowMs, true);
    expect(verdict.allowed).toBe(roomBefore);
    if (mustRefuse) expect(verdict.allowed).toBe(false);
    if (mustAllow) expect(verdict.allowed).toBe(true);
    this.#compare(verdict, naive);
    return verdict;
  }

  record(key: string): void {
    const naive = this.#naiveOf(key);
    const roomBefore = naive.countedBySecond(this.nowMs) < this.#limit;
    const verdict = this.#table.record(key, this.nowMs);
    naive.add(this.nowMs, false);
    expect(verdict.allowed).toBe(roomBefore);
    this.#compare(verdict, naive);
  }

  checkAccepted(): void {
    for (const naive of this.#naive.values()) {
      expect(naive.mostAcceptedInAMinute()).toBeLessThanOrEqual(this.#limit);
    }
  }

  #compare(verdict: ReturnType<WindowTable["take"]>, naive: NaiveWindow): void {
    expect(verdict).toEqual({
      allowed: verdict.allowed,
      limit: this.#limit,
      remaining: Math.max(0, this.#limit - naive.countedBySecond(this.nowMs)),
      retryAfterSeconds: verdict.allowed ? 0 : naive.secondsUntilRoom(this.#limit, this.nowMs),
      resetAfterMs: naive.emptyAtMs() - this.nowMs,
    });
    if (!verdict.allowed) {
      expect(verdict.retryAfterSeconds).toBeGreaterThanOrEqual(1);
      expect(verdict.retryAfterSeconds).toBeLessThanOrEqual(61);
    }
  }

  #naiveOf(key: string): NaiveWindow {
    const naive = this.#naive.get(key) ?? new NaiveWindow();
    this.#naive.set(key, naive);
    return naive;
  }
}

describe("WindowTable", () => {
  test("WindowTable answers as the naive reference does, whatever happens", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 0, max: 5_000_000 }),
        commands(["a", "b", "c"]),
        (limit, startMs, script) => {
          const checked = new Checked(limit, startMs);
          for (const command of script) {
            if (command.kind === "advance") checked.nowMs += command.byMs;
            else if (command.kind === "take") checked.take(command.key);
            else if (command.kind === "record") checked.record(command.key);
            else {
              const { allowed, retryAfterSeconds } = checked.take(command.key);
              if (allowed) continue;
              checked.nowMs += retryAfterSeconds * 1000;
              expect(checked.take(command.key).allowed).toBe(true);
            }
          }
          checked.checkAccepted();
        },
      ),
      { numRuns: runs },
    );
  }, 120_000);

  test("WindowTable with too few places still never accepts more than the limit of one sender", () => {
    const limit = 4;
    fc.assert(
      fc.property(commands(["a", "b", "c", "d", "e", "f"]), (script) => {
        const table = new WindowTable(limit, 2);
        const naive = new Map<string, NaiveWindow>();
        let nowMs = 0;
        for (const command of script) {
          if (command.kind === "advance") {
            nowMs += command.byMs;
            continue;
          }
          const { key } = command;
          const counted = naive.get(key) ?? new NaiveWindow();
          naive.set(key, counted);
          if (command.kind === "record") table.record(key, nowMs);
          else if (table.take(key, nowMs).allowed) counted.add(nowMs, true);
          expect(table.stats().windows).toBeLessThanOrEqual(2);
        }
        for (const counted of naive.values()) {
          expect(counted.mostAcceptedInAMinute()).toBeLessThanOrEqual(limit);
        }
      }),
      { numRuns: runs },
    );
  }, 120_000);
});
