export interface UntilOptions {
  /** What is waited for, in the words of the error; the code of `look` by default. */
  readonly what?: string;
  /** 10 s by default, which a busy machine may need. */
  readonly limitMs?: number;
}

/** Calls `look` until it gives something true, and gives that; throws after the limit. */
export async function until<Found>(
  look: () => Found | Promise<Found>,
  { what = String(look), limitMs = 10_000 }: UntilOptions = {},
): Promise<Exclude<Awaited<Found>, false | 0 | "" | null | undefined>> {
  const beganMs = performance.now();
  for (;;) {
    const found = await look();
    if (found) return found as Exclude<Awaited<Found>, false | 0 | "" | null | undefined>;
    if (performance.now() - beganMs > limitMs) {
      throw new Error(`This did not happen within ${limitMs / 1000} s: ${what}`);
    }
    await Bun.sleep(3);
  }
}
