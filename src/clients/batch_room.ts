/**
 * The room for bodies of batches, which are larger than those of other requests: a batch takes its room before its body is
 * read, and gives it back with its answer. So any number of senders takes a bounded part of the memory.
 *
 * A key is known only after its body was read, so anybody can take room. Therefore one client address has a quarter of it,
 * and a body has to come within some seconds.
 */
import type { EventWriter } from "../usage/mod.ts";
import { BATCH_LIMIT_BYTES, type BodyBounds } from "../wire/mod.ts";

/** The bounds of a body that needs room. */
export interface BodyRoom extends BodyBounds {
  /** Takes room for a body of the size. Returns what gives the room back; undefined if there is none. */
  take(address: string, bytes: number): (() => void) | undefined;
}

const ROOM_BYTES = 32 * BATCH_LIMIT_BYTES;
const ROOM_OF_ADDRESS_BYTES = ROOM_BYTES / 4;
/** A megabyte at half a megabit a second. */
const WITHIN_MS = 15_000;

export function createBatchRoom(events: Pick<EventWriter, "hasRoom">): BodyRoom {
  const takenBy = new Map<string, number>();
  let takenBytes = 0;

  function add(address: string, bytes: number): void {
    takenBytes += bytes;
    const taken = (takenBy.get(address) ?? 0) + bytes;
    if (taken === 0) takenBy.delete(address);
    else takenBy.set(address, taken);
  }

  return {
    limitBytes: BATCH_LIMIT_BYTES,
    withinMs: WITHIN_MS,
    take(address, bytes) {
      const isFull =
        takenBytes + bytes > ROOM_BYTES || (takenBy.get(address) ?? 0) + bytes > ROOM_OF_ADDRESS_BYTES;
      if (isFull || !events.hasRoom()) return undefined;
      add(address, bytes);
      return () => add(address, -bytes);
    },
  };
}
