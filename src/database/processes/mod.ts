/**
 * The processes that serve this database, and the starts of processes and server. Each process renews its row of the table
 * `processes` once a minute. Owns `processes` and `starts`.
 */
export { isFirstProcess, listProcesses, type ServingProcess } from "./list_processes.ts";
export { createPresence } from "./presence.ts";
export { deleteStart, listStarts, type Start } from "./starts.ts";
