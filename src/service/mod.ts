/**
 * The service as a whole: its parts, and the order in which they start. They stop in the reverse order. Only this room
 * knows all parts.
 */
export type { OpenInstallation, Service } from "./service.ts";
export { startService } from "./start_service.ts";
