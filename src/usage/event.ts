/** A usage event as it is stored: checked, with its identifier, its key, and the license that is charged. */

export const EVENT_TYPES = ["inference", "model_load", "error"] as const;
type EventType = (typeof EVENT_TYPES)[number];

export const INFERENCE_TYPES = ["batch", "streaming"] as const;
type InferenceType = (typeof INFERENCE_TYPES)[number];

export interface UsageEvent {
  readonly uuid: string;
  readonly receivedAtMs: number;
  /**
   * When the event happened, never later than `receivedAtMs`: the month and the day of this time are charged. Null for an
   * event that was sent alone, which is charged when it was received.
   */
  readonly occurredAtMs: number | null;
  readonly keyUuid: string;
  readonly licenseUuid: string;
  readonly type: EventType;
  readonly modelName: string | null;
  readonly inferenceType: InferenceType | null;
  /** Finite and not negative. */
  readonly durationMs: number | null;
  readonly success: boolean;
  readonly errorMessage: string | null;
  /** A JSON object as text, at most 16 KiB. */
  readonly metadata: string | null;
  /** Null for an event that counts again if it is sent again. */
  readonly claim: Claim | null;
}

/** A used `Idempotency-Key`: for 24 hours, or 8 days with `occurredAtMs`, it stands for one event of its license. */
export interface Claim {
  /** SHA-256 of the header's value, 64 hexadecimal digits. */
  readonly hash: string;
  /** The digest of the event (see `event_digest.ts`): the same claim with a different digest is refused. */
  readonly digest: string;
  /** The time of the event as the client sent it; null for an event that was sent alone. */
  readonly occurredAtMs: number | null;
  /** SHA-256 of the event's fields as they were received; earlier versions compared events by it. */
  readonly eventHash: string;
}

/** Returns the time whose month and day are charged. */
export function chargedAtMs({ occurredAtMs, receivedAtMs }: UsageEvent): number {
  return occurredAtMs ?? receivedAtMs;
}

/** The size and the arrival of an event that waits. It is answered within 2 s of its arrival. */
export interface Arrival {
  readonly bytes: number;
  /** The time of the arrival, by the monotonic clock. */
  readonly atMs: number;
}

export type EventOutcome =
  /**
   * Committed as `eventUuid`, now or, if its claim was known, earlier. `used` is the month's use with this event. If the
   * event used no quota now, it is the month's use for an event with a time of its own, and null for every other event.
   * `isTruncated`: its texts had no room, and were not stored.
   */
  | {
      readonly kind: "committed";
      readonly eventUuid: string;
      readonly used: number | null;
      readonly isTruncated: boolean;
      /** Of an event that was known, and was charged to another month than that of its time. */
      readonly chargedAtMs?: number;
    }
  /**
   * The event was neither stored nor counted, because its claim stands for another event. `field` is the first field
   * that differs, if known.
   */
  | { readonly kind: "claim_mismatch"; readonly field: string | undefined }
  /** The event was neither stored nor counted, because the month's quota was used up. */
  | { readonly kind: "quota_exceeded"; readonly used: number }
  /** The event was neither stored nor counted, because the database cannot store one of its values. */
  | { readonly kind: "not_storable" };
