/**
 * Values that are usually known at once, and come later when the database must be asked.
 *
 * A promise costs more than the look-up in memory, so a value that is known at once gets no promise.
 */

export type Eventually<Value> = Value | Promise<Value>;

/**
 * Calls `next` with the value: at once if the value is known, otherwise when it comes.
 *
 * @example
 * ```ts
 * andThen(20, (known) => known + 1); // 21
 * await andThen(Promise.resolve(20), (found) => found + 1); // 21
 * ```
 */
export function andThen<Value, Next>(
  value: Eventually<Value>,
  next: (value: Value) => Eventually<Next>,
): Eventually<Next> {
  return value instanceof Promise ? value.then(next) : next(value);
}
