/**
 * The room for bodies of batches, which are larger than those of other requests: a batch takes its room before its body is
 * read, and gives it back with its answer. So any number of senders takes a bounded part of the memory.
 *
 * A key is known only after its body was read, so anybody can take room. Therefore one client address has a quarter of it,
 * and a body has to come within some seconds.
 */
import { ByteRoom } from "../base/rate_limits/mod.ts";
import type { EventWriter } from "../usage/mod.ts";
import { BATCH_LIMIT_BYTES, type BodyBounds } from "../wire/mod.ts";

/** The bounds of a body that needs room. */
export interface BodyRoom extends BodyBounds {
  /** Takes room for a body of the size. Returns what gives the room back; undefined if there is none. */
  take(address: string, bytes: number): (() => void) | undefined;
}

const ROOM_BYTES = 32 * BATCH_LIMIT_BYTES;
/** A megabyte at half a megabit a second. */
const WITHIN_MS = 15_000;

export function createBatchRoom(events: Pick<EventWriter, "hasRoom">): BodyRoom {
  const room = new ByteRoom({ perSender: ROOM_BYTES / 4, inAll: ROOM_BYTES });
  return {
    limitBytes: BATCH_LIMIT_BYTES,
    withinMs: WITHIN_MS,
    take(address, bytes) {
      const leave = events.hasRoom() ? room.take(address, bytes) : "all full";
      return typeof leave === "string" ? undefined : leave;
    },
  };
}
