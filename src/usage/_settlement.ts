import type { QueuedEvent } from "./_event_queue.ts";
import type { CommittedBatch, Grant, KnownEvent } from "./commit_events.ts";
import type { EventOutcome, UsageEvent } from "./event.ts";
import { findDifference } from "./event_digest.ts";

/** Answers the events of a batch with what its commit granted. Returns how many events were stored. */
export function settle(
  batch: readonly QueuedEvent[],
  { grants, known, truncated }: CommittedBatch,
  onCharged: (grant: Grant, receivedAtMs: number) => void,
): number {
  const knownAs = new Map(known.map((event) => [batch[event.index]?.event, event]));
  const withoutTexts = new Set(truncated.map((index) => batch[index]?.event));
  const left = new Map<string, { granted: number; given: number; used: number }>();
  for (const grant of grants) {
    left.set(grant.licenseUuid, { granted: grant.granted, given: 0, used: grant.used });
    onCharged(grant, batch[0]?.event.receivedAtMs ?? 0);
  }
  let stored = 0;
  for (const { event, resolve } of batch) {
    const before = knownAs.get(event);
    if (before !== undefined) {
      resolve(outcomeOfKnown(event, before));
      continue;
    }
    const { uuid: eventUuid } = event;
    const isTruncated = withoutTexts.has(event);
    const share = left.get(event.licenseUuid);
    if (event.type !== "inference") {
      stored++;
      resolve({ kind: "committed", eventUuid, used: null, isTruncated });
    } else if (share !== undefined && share.given < share.granted) {
      stored++;
      share.given++;
      const used = share.used - share.granted + share.given;
      resolve({ kind: "committed", eventUuid, used, isTruncated });
    } else {
      resolve({ kind: "quota_exceeded", used: share?.used ?? 0 });
    }
  }
  return stored;
}

/** Returns the outcome of an event whose claim was known: the claim stands for the same event or for another one. */
function outcomeOfKnown({ claim }: UsageEvent, known: KnownEvent): EventOutcome {
  const field = known.digest === null ? undefined : findDifference(known.digest, claim?.digest ?? "");
  const isSame = known.digest === null ? known.eventHash === claim?.eventHash : field === undefined;
  return isSame
    ? { kind: "committed", eventUuid: known.eventUuid, used: null, isTruncated: known.isTruncated }
    : { kind: "claim_mismatch", field };
}
