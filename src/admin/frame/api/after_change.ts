import { DatabaseUnavailable } from "../../../database/mod.ts";
import { type Refusal, refuse } from "../../../refusal.ts";

const MADE = refuse(
  "SERVICE_UNAVAILABLE",
  "The change was made, but the database did not answer in time when its result was read: read the result again",
);

/**
 * Reads the result of a change that was made. If the database does not answer, the refusal says that the change was
 * made, because the usual refusal of a slow statement says that nothing was changed.
 */
export async function readAfterChange<Result>(read: () => Promise<Result>): Promise<Result | Refusal> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof DatabaseUnavailable) return MADE;
    throw error;
  }
}
