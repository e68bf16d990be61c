/**
 * Runs random sequences of commands on the table and on a naive reference, with a clock that is passed in. Time jumps
 * mostly by lengths near the edges: by parts of a second, and by about a minute.
 *
 * Each command is one random number, which is cheap and shrinks well: a hundred thousand sequences take seconds.
 */
import { expect } from "bun:test";
import fc from "fast-check";
import { type Sender, type Verdict, WindowTable } from "../../../src/base/rate_limits/mod.ts";
import { type NaiveRequest, NaiveWindow } from "./naive_windows.ts";

export interface Sequences {
  readonly seed: number;
  readonly sequences: number;
  /** The most commands of one sequence. */
  readonly length: number;
}

type Command =
  | { readonly kind: "take" | "record" | "takeAndWait"; readonly key: string }
  | { readonly kind: "takeBack" | "takeMany"; readonly key: string; readonly choice: number }
  | { readonly kind: "advance"; readonly byMs: number };

/** One letter for each kind of command, repeated as often as the kind comes in 18 commands. */
const KINDS = [..."tttttt", ..."mm", ..."rr", "w", ..."bb", ..."aaaaa"];

function toCommand(drawn: number, keys: readonly string[]): Command {
  const kind = KINDS[drawn % 18];
  const rest = Math.floor(drawn / 18);
  if (kind === "a") return { kind: "advance", byMs: toJump(rest) };
  const key = keys[rest % keys.length] ?? "";
  if (kind === "b") return { kind: "takeBack", key, choice: rest };
  if (kind === "m") return { kind: "takeMany", key, choice: Math.floor(rest / keys.length) };
  return { kind: kind === "t" ? "take" : kind === "r" ? "record" : "takeAndWait", key };
}

function toJump(drawn: number): number {
  const rest = Math.floor(drawn / 10);
  if (drawn % 10 < 6) return rest % 1_101;
  if (drawn % 10 < 9) return rest % 20_001;
  return 58_900 + (rest % 2_201);
}

function commands(length: number): fc.Arbitrary<number[]> {
  const drawn = fc.nat(2 ** 31 - 1);
  return fc.array(fc.noBias(drawn), { minLength: Math.ceil(length / 2), maxLength: length, size: "max" });
}

/** Gives the key alone in every third call, and otherwise a sender that keeps its window; at times a new sender. */
class Senders {
  readonly #senders = new Map<string, Sender>();
  #calls = 0;

  of(key: string): string | Sender {
    this.#calls += 1;
    if (this.#calls % 3 === 0) return key;
    if (this.#calls % 11 === 0) this.#senders.delete(key);
    const sender = this.#senders.get(key) ?? { uuid: key, window: undefined };
    this.#senders.set(key, sender);
    return sender;
  }
}

/** A counted request, or several that were counted together, that may still be taken back. */
interface Counted {
  readonly verdict: Verdict;
  readonly requests: readonly NaiveRequest[];
}

/** Returns a number of requests to count together, from 1 to the limit. */
const toUnits = (choice: number, limit: number) => 1 + (choice % limit);

function addMany(naive: NaiveWindow, { units, atMs }: { units: number; atMs: number }): NaiveRequest[] {
  return Array.from({ length: units }, () => naive.add(atMs, true));
}

/** The counted requests of each key. The request that is taken back may be the newest, or minutes old. */
class Pending {
  readonly #counted = new Map<string, Counted[]>();

  add(key: string, counted: Counted): void {
    this.#counted.set(key, [...(this.#counted.get(key) ?? []), counted]);
  }

  remove(key: string, choice: number): Counted | undefined {
    const counted = this.#counted.get(key) ?? [];
    return counted.splice(choice % counted.length, 1)[0];
  }
}

/** A table and its reference. Compares each answer of the table with the reference at once. */
class Checked {
  nowMs: number;
  readonly #table: WindowTable;
  readonly #limit: number;
  readonly #naive = new Map<string, NaiveWindow>();
  readonly #senders = new Senders();
  readonly #pending = new Pending();

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
    const verdict = this.#table.take(this.#senders.of(key), this.nowMs);
    if (verdict.allowed) this.#pending.add(key, { verdict, requests: [naive.add(this.nowMs, true)] });
    is("allowed", verdict.allowed, roomBefore);
    if (mustRefuse) is("allowed", verdict.allowed, false);
    if (mustAllow) is("allowed", verdict.allowed, true);
    this.#compare(verdict, naive);
    return verdict;
  }

  /** Counts several requests, or none. */
  takeMany(key: string, choice: number): void {
    const units = toUnits(choice, this.#limit);
    const naive = this.#naiveOf(key);
    const roomBefore = naive.countedBySecond(this.nowMs) + units <= this.#limit;
    const mustRefuse = naive.countedWithin(60_000, this.nowMs) + units > this.#limit;
    const mustAllow = naive.countedWithin(61_000, this.nowMs) + units <= this.#limit;
    const verdict = this.#table.takeMany(this.#senders.of(key), this.nowMs, units);
    if (verdict.allowed)
      this.#pending.add(key, { verdict, requests: addMany(naive, { units, atMs: this.nowMs }) });
    is("allowed", verdict.allowed, roomBefore);
    if (mustRefuse) is("allowed", verdict.allowed, false);
    if (mustAllow) is("allowed", verdict.allowed, true);
    this.#compare(verdict, naive, units);
  }

  record(key: string): void {
    const naive = this.#naiveOf(key);
    const roomBefore = naive.countedBySecond(this.nowMs) < this.#limit;
    const verdict = this.#table.record(this.#senders.of(key), this.nowMs);
    this.#pending.add(key, { verdict, requests: [naive.add(this.nowMs, false)] });
    is("allowed", verdict.allowed, roomBefore);
    this.#compare(verdict, naive);
  }

  takeBack(key: string, choice: number): void {
    const next = this.#pending.remove(key, choice);
    if (next === undefined) return;
    const naive = this.#naiveOf(key);
    const verdict = this.#table.takeBack(this.#senders.of(key), next.verdict, this.nowMs);
    for (const request of next.requests) naive.remove(request);
    is("allowed", verdict.allowed, naive.countedBySecond(this.nowMs) < this.#limit);
    this.#compare(verdict, naive);
  }

  checkAccepted(): void {
    for (const naive of this.#naive.values()) {
      expect(naive.mostAcceptedInAMinute()).toBeLessThanOrEqual(this.#limit);
    }
  }

  /** Compares a decision about so many requests. */
  #compare(verdict: Verdict, naive: NaiveWindow, units = 1): void {
    is("limit", verdict.limit, this.#limit);
    is("remaining", verdict.remaining, Math.max(0, this.#limit - naive.countedBySecond(this.nowMs)));
    is("resetAfterMs", verdict.resetAfterMs, Math.max(0, naive.emptyAtMs() - this.nowMs));
    const wait = verdict.allowed ? 0 : naive.secondsUntilRoom(this.#limit - units + 1, this.nowMs);
    is("retryAfterSeconds", verdict.retryAfterSeconds, wait);
    if (!verdict.allowed && (wait < 1 || wait > 61)) throw new Error(`a wait of ${wait} s`);
  }

  #naiveOf(key: string): NaiveWindow {
    const naive = this.#naive.get(key) ?? new NaiveWindow();
    this.#naive.set(key, naive);
    return naive;
  }
}

/** Replaces `expect().toBe()`, which would take longer than the rest of the test. */
function is<Value>(what: string, actual: Value, should: Value): void {
  if (actual !== should) throw new Error(`${what} is ${actual} instead of ${should}`);
}

/** Compares a table with room for all senders with the reference. Throws with the seed and the smallest sequence. */
export function checkSequences({ seed, sequences, length }: Sequences): void {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 0, max: 5_000_000 }),
      commands(length),
      (limit, startMs, script) => {
        const checked = new Checked(limit, startMs);
        for (const drawn of script) {
          const command = toCommand(drawn, ["a", "b", "c"]);
          if (command.kind === "advance") checked.nowMs += command.byMs;
          else if (command.kind === "take") checked.take(command.key);
          else if (command.kind === "record") checked.record(command.key);
          else if (command.kind === "takeBack") checked.takeBack(command.key, command.choice);
          else if (command.kind === "takeMany") checked.takeMany(command.key, command.choice);
          else {
            const { allowed, retryAfterSeconds } = checked.take(command.key);
            if (allowed) continue;
            checked.nowMs += retryAfterSeconds * 1000;
            is("allowed", checked.take(command.key).allowed, true);
          }
        }
        checked.checkAccepted();
      },
    ),
    { numRuns: sequences, seed },
  );
}

/** Checks, with six senders on a table of two places, the rules that hold however full the table is. */
export function checkCrowdedSequences({ seed, sequences, length }: Sequences): void {
  const limit = 4;
  fc.assert(
    fc.property(commands(length), (script) => {
      const table = new WindowTable(limit, 2);
      const naive = new Map<string, NaiveWindow>();
      const senders = new Senders();
      const pending = new Pending();
      let nowMs = 0;
      for (const drawn of script) {
        const command = toCommand(drawn, ["a", "b", "c", "d", "e", "f"]);
        if (command.kind === "advance") {
          nowMs += command.byMs;
          continue;
        }
        const { key } = command;
        const counted = naive.get(key) ?? new NaiveWindow();
        naive.set(key, counted);
        const sender = senders.of(key);
        if (command.kind === "record") table.record(sender, nowMs);
        else if (command.kind === "takeBack") {
          const next = pending.remove(key, command.choice);
          if (next === undefined) continue;
          table.takeBack(sender, next.verdict, nowMs);
          for (const request of next.requests) counted.remove(request);
        } else {
          const units = command.kind === "takeMany" ? toUnits(command.choice, limit) : 1;
          const verdict =
            command.kind === "takeMany" ? table.takeMany(sender, nowMs, units) : table.take(sender, nowMs);
          if (verdict.allowed)
            pending.add(key, { verdict, requests: addMany(counted, { units, atMs: nowMs }) });
        }
        if (table.stats().windows > 2) throw new Error("more windows than places");
      }
      for (const counted of naive.values()) {
        expect(counted.mostAcceptedInAMinute()).toBeLessThanOrEqual(limit);
      }
    }),
    { numRuns: sequences, seed },
  );
}
