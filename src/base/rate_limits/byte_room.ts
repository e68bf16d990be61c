/**
 * Bounds how many bytes of large bodies are in memory at once, of one sender and of all together. A body takes its room before
 * it is read, so any number of senders takes a bounded part of the memory, and a slow one keeps no other from sending.
 */

/** The bound that is reached. */
type Full = "sender full" | "all full";

export class ByteRoom {
  readonly #perSender: number;
  readonly #inAll: number;
  readonly #takenBy = new Map<string, number>();
  #taken = 0;

  /** Takes the most bytes at once of one sender, and of all senders together. */
  constructor({ perSender, inAll }: { readonly perSender: number; readonly inAll: number }) {
    this.#perSender = perSender;
    this.#inAll = inAll;
  }

  /** Takes room for a body of so many bytes. Returns the function that gives it back, or the bound that is reached. */
  take(sender: string, bytes: number): (() => void) | Full {
    if ((this.#takenBy.get(sender) ?? 0) + bytes > this.#perSender) return "sender full";
    if (this.#taken + bytes > this.#inAll) return "all full";
    this.#add(sender, bytes);
    return () => this.#add(sender, -bytes);
  }

  #add(sender: string, bytes: number): void {
    this.#taken += bytes;
    const taken = (this.#takenBy.get(sender) ?? 0) + bytes;
    if (taken === 0) this.#takenBy.delete(sender);
    else this.#takenBy.set(sender, taken);
  }
}

/** Returns for how many bytes a request needs room: its declared size, or the largest one. A larger one is refused unread. */
export function bytesToRead({ headers }: Request, limitBytes: number): number {
  const declared = Number(headers.get("content-length") ?? Number.NaN);
  return Number.isNaN(declared) ? limitBytes : Math.min(declared, limitBytes);
}
