/**
 * A key's hash as numbers, by which the cache finds the key.
 *
 * When requests use many thousand keys in turn, no data of a key is in the processor's caches. To compare text, Bun
 * waits for memory several times: for the string, then for its characters. A number is in the table itself. So the
 * first number finds a record, and the other numbers, which are on the record, show whether it is the right one.
 */
import type { Platform } from "../../base/platform/mod.ts";

/** The 32 bytes of a SHA-256 as big-endian numbers: six bytes in each number, two in the last one. */
export interface KeyHash {
  readonly hash0: number;
  readonly hash1: number;
  readonly hash2: number;
  readonly hash3: number;
  readonly hash4: number;
  readonly hash5: number;
}

/**
 * Creates the function that hashes the keys of requests. It gives the same hash as `hashApiKey`, without hexadecimal
 * text in between. All calls share one buffer, because a call is synchronous.
 */
export function createKeyHasher(sha256: Platform["sha256"]): (apiKey: string) => KeyHash {
  const bytes = new Uint8Array(32);
  return (apiKey) => {
    sha256(apiKey, bytes);
    return toKeyHash(bytes);
  };
}

/** Parses a hash of 64 hexadecimal digits. */
export function parseKeyHash(digits: string): KeyHash {
  return toKeyHash(Buffer.from(digits, "hex"));
}

/** Returns the 64 hexadecimal digits of a hash. */
export function renderKeyHash({ hash0, hash1, hash2, hash3, hash4, hash5 }: KeyHash): string {
  const head = [hash0, hash1, hash2, hash3, hash4].map((number) => number.toString(16).padStart(12, "0"));
  return head.join("") + hash5.toString(16).padStart(4, "0");
}

/** Tells whether two hashes are equal from the second number on: the cache has found the key by the first number. */
export function hasSameRest(a: KeyHash, b: KeyHash): boolean {
  return (
    a.hash1 === b.hash1 &&
    a.hash2 === b.hash2 &&
    a.hash3 === b.hash3 &&
    a.hash4 === b.hash4 &&
    a.hash5 === b.hash5
  );
}

function toKeyHash(bytes: Uint8Array): KeyHash {
  return {
    hash0: readSix(bytes, 0),
    hash1: readSix(bytes, 6),
    hash2: readSix(bytes, 12),
    hash3: readSix(bytes, 18),
    hash4: readSix(bytes, 24),
    hash5: readByte(bytes, 30) * 0x100 + readByte(bytes, 31),
  };
}

/** Reads six bytes as a whole number. `Buffer` can do this too, but takes four times as long for the whole hash. */
function readSix(bytes: Uint8Array, at: number): number {
  const high = (readByte(bytes, at) << 16) | (readByte(bytes, at + 1) << 8) | readByte(bytes, at + 2);
  const low = (readByte(bytes, at + 3) << 16) | (readByte(bytes, at + 4) << 8) | readByte(bytes, at + 5);
  return high * 0x1000000 + low;
}

function readByte(bytes: Uint8Array, at: number): number {
  return bytes[at] as number;
}
