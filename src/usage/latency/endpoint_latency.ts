/** The requests of a time, and the times within which half, 95 % and 99 % of them ended; null without a request. */
export interface Measured {
  readonly requests: number;
  /** Answered with an error that is no failure of the service. */
  readonly refused: number;
  /** Answered with a status of 500 or more. */
  readonly failed: number;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
}

/** Five minutes of an endpoint, or an hour. */
export interface LatencyStep extends Measured {
  readonly at: Date;
}

export interface EndpointLatency {
  readonly endpoint: string;
  /** The last hour of the span, and the 24 hours before that hour. */
  readonly lastHour: Measured;
  readonly dayBefore: Measured;
  /** The earliest first; five minutes without a request have no step. */
  readonly steps: readonly LatencyStep[];
  /** The same by hours, of which the span can have a part. */
  readonly hours: readonly LatencyStep[];
}
