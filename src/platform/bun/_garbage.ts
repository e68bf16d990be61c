/**
 * Collects garbage by the work that was done.
 *
 * Left to itself JavaScriptCore collects when its heap has about doubled, and what the allocator took for that
 * stays resident: with 20,000 keys at hand and requests at full speed half again as much, and for moments twice
 * that. It is slower as well, by 3 %: what is used again soon is still near. The options that would do the same
 * are read from the environment only, before the program runs; `--smol`, which can be built in, changed nothing.
 */

/**
 * A request leaves some 5 KB behind, so that about 15 MB gather; whatever leaves more is up to JavaScriptCore. A
 * third as many cost 3 % of the speed; a third more gain 1 %, and let more stay resident than a test allows.
 */
const REQUESTS_BETWEEN = 3_000;

export interface Garbage {
  /** To be told of every request. */
  countRequest(): void;
}

export function createGarbage(): Garbage {
  let requests = 0;
  return {
    countRequest() {
      if (++requests < REQUESTS_BETWEEN) return;
      requests = 0;
      // Not at once, and so beside the requests: JavaScriptCore chooses whether the young are enough.
      Bun.gc(false);
    },
  };
}
