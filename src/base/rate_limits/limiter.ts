/**
 * The rate limits of all endpoints.
 *
 * Each endpoint has two tables: one by key, for requests that carry a key that was issued, and one by
 * client address, for all others. They share nothing, so a flood of addresses can fill only the table
 * of addresses and never crowds out a customer's window.
 */
import { growLimit, type KeyWindows, type LimitOf, type WindowStats, WindowTable } from "./window_table.ts";

export interface Limiter<Endpoint extends string> {
  /** The windows of each endpoint. Look them up once and keep them. */
  readonly windows: Readonly<
    Record<Endpoint, { readonly byKey: KeyWindows; readonly byAddress: WindowTable }>
  >;
  /** Returns the counters of all endpoints, by key and by address. */
  stats(): Record<Endpoint, { readonly byKey: WindowStats; readonly byAddress: WindowStats }>;
}

/** The most windows by key of an endpoint. Only issued keys get one. */
const KEY_CAPACITY = 1_000_000;
/** The most windows by client address of an endpoint. Any sender can cause one. */
const ADDRESS_CAPACITY = 50_000;

interface LimiterOptions<Endpoint> {
  /** The endpoints at which a key may send at least as many requests as its `leastLimit` says. */
  readonly growing?: readonly NoInfer<Endpoint>[];
  /** Returns windows of keys that several processes share; without it the windows are those of this process. */
  readonly sharedWindowsOf?: ((endpoint: Endpoint, limitOf: LimitOf) => KeyWindows) | undefined;
}

/**
 * Creates the windows of endpoints from their limits in requests a minute; 0 means no limit.
 *
 * A window takes about 250 bytes, and up to 900 for a sender that calls in every second of a minute.
 * Throws a RangeError for a limit out of its range.
 *
 * @example
 * ```ts
 * const { byAddress } = createLimiter({ validate: 1 }).windows.validate;
 * byAddress.take("192.0.2.1", 0).allowed; // true
 * byAddress.take("192.0.2.1", 999).retryAfterSeconds; // 61
 * ```
 */
export function createLimiter<Endpoint extends string>(
  limits: Readonly<Record<Endpoint, number>>,
  { growing = [], sharedWindowsOf }: LimiterOptions<Endpoint> = {},
): Limiter<Endpoint> {
  const windows = mapValues(limits, (limit, endpoint) => {
    const limitOf: LimitOf | undefined = growing.includes(endpoint)
      ? ({ leastLimit = 0 }) => growLimit(limit, leastLimit)
      : undefined;
    return {
      byKey:
        limit > 0 && sharedWindowsOf !== undefined
          ? sharedWindowsOf(endpoint, limitOf ?? (() => limit))
          : new WindowTable(limit, KEY_CAPACITY, { limitOf }),
      byAddress: new WindowTable(limit, ADDRESS_CAPACITY),
    };
  });
  return {
    windows,
    stats: () =>
      mapValues(windows, ({ byKey, byAddress }) => ({
        byKey: byKey.stats(),
        byAddress: byAddress.stats(),
      })),
  };
}

function mapValues<Name extends string, From, To>(
  record: Readonly<Record<Name, From>>,
  change: (value: From, name: Name) => To,
): Record<Name, To> {
  const entries = Object.entries<From>(record).map(
    ([name, value]) => [name, change(value, name as Name)] as const,
  );
  return Object.fromEntries(entries) as Record<Name, To>;
}
