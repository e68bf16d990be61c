/**
 * Sends one event of a claim to the database at a time. If several events with one claim wait at the same time, the
 * first is committed, and the others wait for its outcome, which is usually their outcome, too. Two of them in one
 * statement would violate the unique constraint.
 *
 * The events that wait keep the time of their arrival and count as waiting. So they are not answered later, and do
 * not take more memory, than events without a claim.
 */
import type { Arrival, Claim, EventOutcome, UsageEvent } from "./event.ts";
import { type ClaimedEvent, findClaimDifference } from "./event_digest.ts";

interface ClaimsOptions {
  /** Queues an event for its commit; it counts as waiting until a batch takes it. */
  readonly enqueue: (event: UsageEvent, arrival: Arrival) => Promise<EventOutcome>;
  /** Called for an event that waits no more and was not queued. */
  readonly leave: (arrival: Arrival) => void;
}

export function createClaims({ enqueue, leave }: ClaimsOptions) {
  const undecided = new Map<
    string,
    { readonly claim: ClaimedEvent; readonly outcome: Promise<EventOutcome> }
  >();

  return {
    async write(
      event: UsageEvent,
      { claim, arrival }: { readonly claim: Claim; readonly arrival: Arrival },
    ): Promise<EventOutcome> {
      const name = `${event.licenseUuid}${claim.hash}`;
      for (let first = undecided.get(name); first !== undefined; first = undecided.get(name)) {
        const field = findClaimDifference(first.claim, claim);
        const outcome = await first.outcome.catch((error: unknown) => {
          // The waiting event fails, too, even if its fields differ: a second attempt could take just as long.
          leave(arrival);
          throw error;
        });
        // An event that was not committed wrote no claim, but an older claim may exist. So its outcome is right only
        // for equal events.
        if (field !== undefined && outcome.kind !== "committed") continue;
        leave(arrival);
        return field === undefined ? outcome : { kind: "claim_mismatch", field };
      }
      const outcome = enqueue(event, arrival).finally(() => undecided.delete(name));
      undecided.set(name, { claim, outcome });
      return outcome;
    },
  };
}
