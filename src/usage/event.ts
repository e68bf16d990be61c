/** A usage event as it is stored: checked, with its identifier and the key and license it is charged to. */

export const EVENT_TYPES = ["inference", "model_load", "error"] as const;
export type EventType = (typeof EVENT_TYPES)[number];

export const INFERENCE_TYPES = ["batch", "streaming"] as const;
export type InferenceType = (typeof INFERENCE_TYPES)[number];

export interface UsageEvent {
  readonly uuid: string;
  readonly receivedAtMs: number;
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
  /** Null for an event that may be counted again when it is sent again. */
  readonly claim: Claim | null;
}

/** An `Idempotency-Key`: within 24 hours it stands for one event of its license. */
export interface Claim {
  /** SHA-256 of the header's value, 64 hexadecimal digits. */
  readonly hash: string;
  /** What the event means (see `event_digest.ts`): the same claim with another meaning is refused. */
  readonly digest: string;
  /** SHA-256 of the event's fields as they came, by which earlier versions compared events. */
  readonly eventHash: string;
}

/** What an event that waits takes up, and since when: from then on it is answered within 2 s. */
export interface Arrival {
  readonly bytes: number;
  /** By the monotonic clock. */
  readonly atMs: number;
}

export type EventOutcome =
  /**
   * Committed, now or, where its claim was known, before: as `eventUuid`. `used` is the month's use with
   * it, null where it used no quota now.
   */
  | { readonly kind: "committed"; readonly eventUuid: string; readonly used: number | null }
  /** Neither stored nor counted: its claim stands for an event of which this field differs, where one is known. */
  | { readonly kind: "claim_mismatch"; readonly field: string | undefined }
  /** Neither stored nor counted: the month's allowance was used up. */
  | { readonly kind: "quota_exceeded"; readonly used: number }
  /** Neither stored nor counted: the database cannot hold this value. */
  | { readonly kind: "not_storable" };
