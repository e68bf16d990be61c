export interface UntilOptions {
  /** The awaited event, for the error's text; by default the source text of `look`. */
  readonly what?: string;
  /** By default 20 s, which a busy machine may need. */
  readonly limitMs?: number;
}

/** Calls `look` until it returns a truthy value, and returns that value; throws after the limit. */
export async function until<Found>(
  look: () => Found | Promise<Found>,
  { what = String(look), limitMs = 20_000 }: UntilOptions = {},
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
