/**
 * Moves the two clocks that the program reads, `new Date()` and `performance.now()`, as the starting process
 * says. Node loads this file before `dist/claviger.mjs` (`node --import`). Timers stay unchanged.
 */
export interface Offsets {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

const read = (text: string): Offsets => JSON.parse(text);

/** Bun imports this file only for its type. */
if (process.env.TEST_CLOCK_OFFSETS !== undefined) {
  let offsets = read(process.env.TEST_CLOCK_OFFSETS);
  const RealDate = Date;
  const realNow = performance.now.bind(performance);
  const now = () => RealDate.now() + offsets.wallMs;

  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
    get: (target, name) => (name === "now" ? now : Reflect.get(target, name)),
  });
  Object.defineProperty(performance, "now", { value: () => realNow() + offsets.monotonicMs });

  process.on("message", (next: Offsets) => {
    offsets = next;
    process.send?.("moved");
  });
  // The program must end when its work is done, even if the starting process never moves the clock again.
  process.channel?.unref();
}
