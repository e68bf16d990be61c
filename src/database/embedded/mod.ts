/**
 * The PostgreSQL inside: it is unpacked into the data folder, initialised, started on a unix socket that only its
 * own user can reach, kept running, and stopped in order.
 *
 * Other rooms use `openEmbedded`. `stopLeftovers` is for callers that delete a data folder.
 */

export { readOperatorVersion } from "./_operator_binaries.ts";
export { REPLACE_DATA, refuseDamaged } from "./_refusals.ts";
export { announceRestore } from "./_traces.ts";
export { stopLeftovers } from "./leftovers.ts";
export {
  type DataFault,
  type EmbeddedAddress,
  type EmbeddedOptions,
  type EmbeddedServer,
  NO_DATA_FAULT,
  NO_RESTORE_NOTE,
  openEmbedded,
  type RestoreNote,
} from "./open.ts";
