/**
 * Loaded into Node before `dist/claviger.mjs` (`node --import`): moves the two clocks that the program
 * reads, `new Date()` and `performance.now()`, as the process that started it says. Timers run as ever.
 */
export interface Offsets {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

const read = (text: string): Offsets => JSON.parse(text);

/** Under Bun this file is imported for its type alone. */
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
  // The program ends when it has done its work, not when nobody moves its time any more.
  process.channel?.unref();
}
