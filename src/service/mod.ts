/** The service as a whole: its parts, and the order in which they start and stop. */
export { type OpenInstallation, type Service, type ServiceOptions, startService } from "./start_service.ts";
