import { refuse } from "../refusal.ts";

/**
 * The error with which a body fails if its client waits for a `100 Continue` that the runtime does not send. Code that reads a
 * body returns this refusal as its own.
 */
export const BODY_NOT_SENT = refuse(
  "EXPECTATION_FAILED",
  "The body did not come: leave out the header Expect, or write 100-continue in lower case",
);
