/**
 * The bounds of the histogram of each endpoint, which the metrics show and the database keeps: so Prometheus and the console
 * compute the same percentiles. An answer from the cache takes 0.1 ms, a commit about 10 ms, and no answer takes longer
 * than 5 s. Stored rows have no bounds: whoever changes them empties `latency_steps` in a migration.
 */
export const BOUNDS_SECONDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
];

/** The time that a row covers. */
export const STEP_MS = 300_000;

/** For how long rows are kept. */
export const LATENCY_KEPT_HOURS = 48;
