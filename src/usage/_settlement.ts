import { monthOf } from "../base/calendar.ts";
import type { QueuedEvent } from "./_event_queue.ts";
import type { CommittedBatch, Grant, KnownEvent } from "./commit_events.ts";
import { chargedAtMs, type EventOutcome, type UsageEvent } from "./event.ts";
import { findClaimDifference } from "./event_digest.ts";

/** Answers the events of a batch with what its commit granted. Returns how many events were stored. */
export function settle(
  batch: readonly QueuedEvent[],
  { grants, known, truncated, usedBefore }: CommittedBatch,
  onCharged: (grant: Grant, chargedAtMs: number) => void,
): number {
  const knownAs = new Map(known.map((event) => [batch[event.index]?.event, event]));
  const withoutTexts = new Set(truncated.map((index) => batch[index]?.event));
  const [first] = batch;
  const left = new Map<string, { granted: number; given: number; used: number }>();
  for (const grant of grants) {
    left.set(grant.licenseUuid, { granted: grant.granted, given: 0, used: grant.used });
    onCharged(grant, first === undefined ? 0 : chargedAtMs(first.event));
  }
  const usedOf = ({ licenseUuid }: UsageEvent) =>
    left.get(licenseUuid)?.used ?? usedBefore.get(licenseUuid) ?? 0;
  /** What the answer to an event says that used no quota now. */
  const usedAnyway = (event: UsageEvent) => (event.occurredAtMs === null ? null : usedOf(event));
  let stored = 0;
  for (const { event, resolve } of batch) {
    const before = knownAs.get(event);
    if (before !== undefined) {
      resolve(outcomeOfKnown(event, before, usedAnyway(event)));
      continue;
    }
    const { uuid: eventUuid } = event;
    const isTruncated = withoutTexts.has(event);
    const share = left.get(event.licenseUuid);
    if (event.type !== "inference") {
      stored++;
      resolve({ kind: "committed", eventUuid, used: usedAnyway(event), isTruncated });
    } else if (share !== undefined && share.given < share.granted) {
      stored++;
      share.given++;
      const used = share.used - share.granted + share.given;
      resolve({ kind: "committed", eventUuid, used, isTruncated });
    } else {
      resolve({ kind: "quota_exceeded", used: usedOf(event) });
    }
  }
  return stored;
}

/** Returns the outcome of an event whose claim was known: the claim stands for the same event or for another one. */
function outcomeOfKnown(event: UsageEvent, known: KnownEvent, used: number | null): EventOutcome {
  const { claim } = event;
  const { digest, occurredAtMs, eventHash, eventUuid, isTruncated } = known;
  const isByDigest = digest !== null && claim !== null;
  const field = isByDigest ? findClaimDifference({ digest, occurredAtMs }, claim) : undefined;
  const isSame = isByDigest ? field === undefined : eventHash === claim?.eventHash;
  if (!isSame) return { kind: "claim_mismatch", field };
  const outcome = { kind: "committed", eventUuid, used, isTruncated } as const;
  // It was sent alone, or before its time, and was charged when it was received.
  const isElsewhere = used !== null && monthOf(known.chargedAtMs).index !== monthOf(chargedAtMs(event)).index;
  return isElsewhere ? { ...outcome, used: known.usedThen ?? 0, chargedAtMs: known.chargedAtMs } : outcome;
}
