/**
 * Usage: events, the month's quota, and their commit in groups. Owns the tables `usage`, `usage_changes`
 * and `events`.
 */
export { commitEvents, type Grant } from "./commit_events.ts";
export {
  EVENT_TYPES,
  type EventType,
  INFERENCE_TYPES,
  type InferenceType,
  type UsageEvent,
} from "./event.ts";
export { createEventWriter, type EventOutcome, type EventWriter } from "./event_writer.ts";
export { importedUsagePart } from "./imported_usage.ts";
export { createPartitions, type Partitions } from "./partitions.ts";
