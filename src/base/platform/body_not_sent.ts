import { refuse } from "../refusal.ts";

/**
 * The error of a body that its client keeps back, because it waits for a `100 Continue` that the runtime does not send.
 * Whatever reads a body passes this refusal on.
 */
export const BODY_NOT_SENT = refuse(
  "EXPECTATION_FAILED",
  "The body did not come: leave out the header Expect, or write 100-continue in lower case",
);
