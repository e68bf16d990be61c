import type { Clock } from "../clock.ts";
import type { KeyDirectory } from "./key_directory.ts";

/** The pulse runs four times a second and times out after 900 ms. */
const STUCK_MS = 10_000;

/** Returns a function that returns false after the pulse has neither succeeded nor failed for long. */
export function watchPulse(directory: KeyDirectory, clock: Clock): () => boolean {
  let pulses = -1;
  let pulsedMs = clock.monotonicMs();
  return () => {
    const { beats = 0, failures = 0 } = directory.stats();
    if (beats + failures !== pulses) {
      pulses = beats + failures;
      pulsedMs = clock.monotonicMs();
    }
    return clock.monotonicMs() - pulsedMs < STUCK_MS;
  };
}
