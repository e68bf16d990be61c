/**
 * Lets `toMatchObject()` compare dates. In Bun 1.4.5 it takes any two dates for the same, so that a test with a wrong date
 * passes. `toEqual()` compares them. `preload.ts` loads this file.
 */
import { expect } from "bun:test";

/** An asymmetric matcher for each date that is the same instant. */
interface DateMatcher {
  readonly sameDateAs: (date: Date) => unknown;
}

expect.extend({
  sameDateAs(received: unknown, expected: Date) {
    const pass = received instanceof Date && received.getTime() === expected.getTime();
    return { pass, message: () => `${Bun.inspect(received)} is not the date ${Bun.inspect(expected)}` };
  },
});

const matchers = Object.getPrototypeOf(expect(undefined));
const matchObject = matchers.toMatchObject;
matchers.toMatchObject = function (expected: unknown) {
  return matchObject.call(this, withComparedDates(expected));
};

/** Replaces each date of a plain value by its matcher. */
function withComparedDates(value: unknown): unknown {
  if (value instanceof Date) return (expect as unknown as DateMatcher).sameDateAs(value);
  if (Array.isArray(value)) return value.map(withComparedDates);
  const isPlain =
    typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  if (!isPlain) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withComparedDates(each)]));
}
