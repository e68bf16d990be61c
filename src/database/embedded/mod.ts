/**
 * The PostgreSQL inside: it is unpacked into the data folder, initialised, started on a unix socket that only its
 * own user can reach, kept running, and stopped in order.
 *
 * Other rooms use `openEmbedded`. `stopLeftovers` is for callers that delete a data folder.
 */

export { INITDB_STOPPED } from "./_cluster.ts";
export { type DataFault, NO_DATA_FAULT } from "./_data_fault.ts";
export { readOperatorVersion } from "./_operator_binaries.ts";
export { REPLACE_DATA, refuseDamaged } from "./_refusals.ts";
export type { EmbeddedAddress } from "./_socket.ts";
export { announceRestore, NO_RESTORE_NOTE, type RestoreNote } from "./_traces.ts";
export type { EmbeddedOptions, EmbeddedServer } from "./embedded_server.ts";
export { stopLeftovers } from "./leftovers.ts";
export { openEmbedded } from "./open.ts";
