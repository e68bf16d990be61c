/**
 * Of several events with one claim that are here together, the first goes to the database and the others wait
 * for its outcome, which mostly decides for them as well: two in one statement would break its constraint.
 *
 * Those that wait keep the time of their arrival and count as waiting, so that no number of them is answered
 * later, or held in more memory, than events without a claim.
 */
import type { Arrival, Claim, EventOutcome, UsageEvent } from "./event.ts";
import { findDifference } from "./event_digest.ts";

export interface ClaimsOptions {
  /** Hands an event on to be committed; it counts as waiting until then. */
  readonly enqueue: (event: UsageEvent, arrival: Arrival) => Promise<EventOutcome>;
  /** Told of an event that waits no more, without having been handed on. */
  readonly leave: (arrival: Arrival) => void;
}

export interface Claims {
  write(event: UsageEvent, by: { readonly claim: Claim; readonly arrival: Arrival }): Promise<EventOutcome>;
}

export function createClaims({ enqueue, leave }: ClaimsOptions): Claims {
  const undecided = new Map<string, { readonly digest: string; readonly outcome: Promise<EventOutcome> }>();

  return {
    async write(event, { claim, arrival }) {
      const name = `${event.licenseUuid}${claim.hash}`;
      for (let first = undecided.get(name); first !== undefined; first = undecided.get(name)) {
        const field = findDifference(first.digest, claim.digest);
        const outcome = await first.outcome.catch((error: unknown) => {
          // Whatever its fields are: to try again now would be to wait as long once more.
          leave(arrival);
          throw error;
        });
        // Any other outcome either left no claim behind, or was that of a claim written before.
        if (field !== undefined && outcome.kind !== "committed") continue;
        leave(arrival);
        return field === undefined ? outcome : { kind: "claim_mismatch", field };
      }
      const outcome = enqueue(event, arrival).finally(() => undecided.delete(name));
      undecided.set(name, { digest: claim.digest, outcome });
      return outcome;
    },
  };
}
