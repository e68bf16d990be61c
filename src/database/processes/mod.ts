/** The processes that serve this database. Each one renews its row of the table `processes` once a minute. */
export { listProcesses, type ServingProcess } from "./list_processes.ts";
export { createPresence } from "./presence.ts";
