/**
 * Judges the history of the places of a license, by the clock of the database. The history of the rows comes from a
 * trigger, which writes a line into a journal with every change of a machine, in the same transaction. What the clients
 * saw comes from themselves.
 */

/** A row of `machines` after a change. Infinity where nothing ends it. */
export interface JournalLine {
  readonly machine: string;
  /** When the row was changed. */
  readonly atMs: number;
  /** Until then the machine holds its place without a further change; not after `atMs` if it was released or given away. */
  readonly untilMs: number;
}

/** A time in which a machine held a place, without its end. */
export interface Holding {
  readonly machine: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** A request that was answered, with two times between which the database decided it. */
export interface Answered {
  readonly sentMs: number;
  readonly answeredMs: number;
}

export interface OfMachine extends Answered {
  readonly machine: string;
}

/** Returns the times in which machines held a place. The lines are in the order in which they were written. */
export function toHoldings(journal: readonly JournalLine[]): Holding[] {
  const holdings: Holding[] = [];
  const open = new Map<string, Holding>();
  for (const { machine, atMs, untilMs } of journal) {
    const held = open.get(machine);
    const isHeld = held !== undefined && held.toMs > atMs;
    if (held !== undefined && !isHeld) holdings.push(held);
    const next = { machine, fromMs: isHeld ? held.fromMs : atMs, toMs: untilMs };
    if (untilMs > atMs) {
      open.set(machine, next);
      continue;
    }
    if (isHeld) holdings.push({ ...next, toMs: atMs });
    open.delete(machine);
  }
  return [...holdings, ...open.values()].filter(({ fromMs, toMs }) => toMs > fromMs);
}

/** From that moment on so many machines hold a place. */
interface Step {
  readonly atMs: number;
  readonly held: number;
}

/** Tells how many machines held a place at each moment. */
export class Occupancy {
  readonly #steps: Step[] = [{ atMs: Number.NEGATIVE_INFINITY, held: 0 }];

  constructor(holdings: readonly Holding[]) {
    const changes = holdings.flatMap(({ fromMs, toMs }) => [
      { atMs: fromMs, by: 1 },
      { atMs: toMs, by: -1 },
    ]);
    let held = 0;
    for (const { atMs, by } of changes.toSorted((a, b) => a.atMs - b.atMs || a.by - b.by)) {
      held += by;
      if (this.#steps.at(-1)?.atMs === atMs) this.#steps.pop();
      this.#steps.push({ atMs, held });
    }
  }

  /** Returns the moments at which more machines hold a place than the license has. */
  above(limit: number): readonly Step[] {
    return this.#steps.filter(({ held }) => held > limit);
  }

  /** Returns the most machines that hold a place at one moment of a request. */
  mostDuring({ sentMs, answeredMs }: Answered): number {
    let [low, high] = [0, this.#steps.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#steps[middle]?.atMs ?? 0) <= sentMs) low = middle;
      else high = middle - 1;
    }
    let most = 0;
    for (; low < this.#steps.length && (this.#steps[low]?.atMs ?? 0) <= answeredMs; low++)
      most = Math.max(most, this.#steps[low]?.held ?? 0);
    return most;
  }
}

/** Returns the refusals during which a place was free all the time. */
export function wrongRefusals<Refused extends Answered>(
  occupancy: Occupancy,
  { refusals, limit }: { readonly refusals: readonly Refused[]; readonly limit: number },
): Refused[] {
  return refusals.filter((refused) => occupancy.mostDuring(refused) < limit);
}

/** Returns the answers "this machine holds a place" whose machine held none at any moment of the request. */
export function unfounded(holdings: readonly Holding[], confirmed: readonly OfMachine[]): OfMachine[] {
  const byMachine = Map.groupBy(holdings, ({ machine }) => machine);
  return confirmed.filter(
    ({ machine, sentMs, answeredMs }) =>
      !byMachine.get(machine)?.some(({ fromMs, toMs }) => fromMs <= answeredMs && toMs >= sentMs),
  );
}

/** Returns the answers "this machine holds no place" whose machine held one during the whole request. */
export function wronglyLost(holdings: readonly Holding[], lost: readonly OfMachine[]): OfMachine[] {
  const byMachine = Map.groupBy(holdings, ({ machine }) => machine);
  return lost.filter(({ machine, sentMs, answeredMs }) =>
    byMachine.get(machine)?.some(({ fromMs, toMs }) => fromMs < sentMs && toMs > answeredMs),
  );
}
