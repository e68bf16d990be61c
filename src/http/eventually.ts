/**
 * Values that are there at once as a rule, and come later where the database has to be asked.
 *
 * A promise for a value that is at hand costs more than finding the value did, so none is made for it.
 */

export type Eventually<Value> = Value | Promise<Value>;

/** Goes on with the value: now if it is there, otherwise when it comes. */
export function andThen<Value, Next>(
  value: Eventually<Value>,
  next: (value: Value) => Eventually<Next>,
): Eventually<Next> {
  return value instanceof Promise ? value.then(next) : next(value);
}
