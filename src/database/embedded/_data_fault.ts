/**
 * What is wrong with the data of a running server: the service is not healthy while there is a fault, and ends if only
 * a person can repair it.
 */
import { lstat, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Refusal } from "../../base/refusal.ts";

/** Thrown if PostgreSQL does not start because its data is damaged. */
export class DamagedData extends Error {
  override readonly name = "DamagedData";
}

export interface DataFault {
  /** The sentence for health; undefined without a fault. */
  sentence(): string | undefined;
  /**
   * Returns the refusal of damaged data after an error; undefined if no damage was found. If the error is only that the
   * database does not answer, waits up to a second for what the server says: a server that ends because of damage may
   * close its connections before its last lines arrive.
   */
  damageAfter(error: unknown): Promise<Refusal | undefined>;
  /** Says damage once, now or when it is found, in a sentence for the operator. */
  report(say: (sentence: string) => void): void;
  /** Resolves when the service has to end because of the fault, to its reason; otherwise never. */
  readonly ending: Promise<Refusal>;
}

/** A database whose data is not this program's. */
export const NO_DATA_FAULT: DataFault = {
  sentence: () => undefined,
  damageAfter: () => Promise.resolve(undefined),
  report() {},
  ending: new Promise(() => {}),
};

/**
 * Looks whether the folder of the cluster is still where it was: `there`, `gone`, or `other` if another folder has
 * its path now.
 */
export async function watchFolder(cluster: string): Promise<() => Promise<"there" | "gone" | "other">> {
  const { dev, ino } = await stat(cluster);
  return async () => {
    try {
      const now = await stat(cluster);
      await lstat(join(cluster, "PG_VERSION"));
      return now.dev === dev && now.ino === ino ? "there" : "other";
    } catch {
      // Whatever the reason is, such as a disk that was unplugged: the data cannot be reached.
      return "gone";
    }
  };
}
