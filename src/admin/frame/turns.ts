/**
 * Turns of senders: a few pieces of work of one sender run at a time. Further ones wait in a short line of the sender,
 * so one sender cannot take the pool away from the others. A sender is a token, or an operator with all sessions.
 */

/**
 * The bounds of this listener. Its pool stops a statement after two seconds, so a piece waits two seconds at most: then
 * it has got its turn, or it is turned away with 429.
 */
export const TURNS = { atOnce: 4, mostWaiting: 32, maxWaitMs: 2_000 };

interface TurnsOptions {
  readonly atOnce: number;
  /** The most pieces that wait for one sender. */
  readonly mostWaiting: number;
  /** A piece that has waited this long is turned away. */
  readonly maxWaitMs: number;
}

interface Line {
  running: number;
  readonly waiting: Set<(mayRun: boolean) => void>;
}

/**
 * Gives the turn back, waits, and takes a turn again. Returns false if the work was turned away in the meantime: then it
 * has no turn, and must end.
 */
export type PauseTurn = (wait: () => Promise<void>) => Promise<boolean>;

/** Returns a function that runs work when it is the sender's turn, or returns false if the work was turned away. */
export function createTurns({ atOnce, mostWaiting, maxWaitMs }: TurnsOptions) {
  const lines = new Map<string, Line>();

  /**
   * `isBack`: the work had a turn before, so a full line does not turn it away. While it waits, it makes the line longer for
   * others.
   */
  function take(sender: string, isBack: boolean): boolean | Promise<boolean> {
    const line = lines.get(sender) ?? { running: 0, waiting: new Set() };
    lines.set(sender, line);
    if (line.running >= atOnce) return (isBack || line.waiting.size < mostWaiting) && wait(line);
    line.running++;
    return true;
  }

  function giveBack(sender: string): void {
    const line = lines.get(sender);
    if (line === undefined) return;
    const [next] = line.waiting;
    // The place goes to the piece that has waited longest, so `running` stays the same.
    if (next !== undefined) next(true);
    else if (--line.running === 0) lines.delete(sender);
  }

  function wait({ waiting }: Line): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (mayRun: boolean) => {
        clearTimeout(timer);
        waiting.delete(end);
        resolve(mayRun);
      };
      const timer = setTimeout(end, maxWaitMs, false);
      waiting.add(end);
    });
  }

  return async (sender: string, work: (pause: PauseTurn) => Promise<void>): Promise<boolean> => {
    const taken = take(sender, false);
    let hasTurn = taken === true || (await taken);
    if (!hasTurn) return false;
    try {
      await work(async (pauseFor) => {
        giveBack(sender);
        hasTurn = false;
        await pauseFor();
        hasTurn = await take(sender, true);
        return hasTurn;
      });
    } finally {
      if (hasTurn) giveBack(sender);
    }
    return true;
  };
}
