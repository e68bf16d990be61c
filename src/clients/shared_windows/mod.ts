/** Rate windows that several processes share, in a table of the database. */
export { sharedWindowsUpkeep } from "./delete_idle.ts";
export { createSharedWindows } from "./shared_windows.ts";
