/**
 * How much the tests of README.md's guarantees try. They read these numbers; `make evidence` keeps them, and the table
 * of guarantees shows them.
 */
export const EXTENT = {
  /** Keys that are revoked while two services are asked about them. */
  revocations: 2_000,
  /** Processes that accept events of one license, and clients of each. */
  quotaProcesses: 2,
  quotaClients: 8,
  /** Sequences of commands to the table of windows. */
  windowSequences: 300_000,
};

export type Extent = typeof EXTENT;
