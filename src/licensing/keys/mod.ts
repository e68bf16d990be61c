/**
 * API keys: their format, issue, import, changes and revocation, and look-up with a cache that follows every change
 * within a second. Owns the tables `keys`, `key_wakings`, `refusals`, `refused_hours` and `too_many_requests`.
 */

export { countListed, listUuids } from "./_listed_keys.ts";
export {
  findKeysIn,
  generateApiKey,
  hashApiKey,
  keyForm,
  keyPattern,
  modeOf,
  type NewApiKey,
  toHint,
} from "./api_key.ts";
export { findRevocable, resumeKey, revokeKey, suspendKey } from "./change_state.ts";
export { fillMessage, readMessage, USUAL_MESSAGE } from "./customer_message.ts";
export {
  ERASURE_REQUEST_MS,
  type ErasureEffect,
  eraseWithKeys,
  findErasureEffect,
} from "./erase_with_keys.ts";
export { explainKey, type KeyExplanation } from "./explain_key.ts";
export { EXPLANATION_FIELDS, renderExplanation } from "./explanation_fields.ts";
export {
  IMPORT_FIELDS,
  type ImportedKey,
  type ImportLine,
  importKeys,
  type LineOfImport,
  parseImportFields,
  parseImportLine,
} from "./import_keys.ts";
export { type IssuedKey, type IssueRequest, issueKey, repeatIssue } from "./issue_key.ts";
export { createKeyDirectory, type KeyDirectory } from "./key_directory.ts";
export { KEY_FIELDS, renderKey } from "./key_fields.ts";
export {
  CURSOR_POSITION,
  DAYS_OF_FILTER,
  KEY_POSITION,
  KEY_SORTS,
  type KeyFilter,
  positionOf,
  toOrder,
} from "./key_filter.ts";
export { createKeyHasher, type KeyHash, renderKeyHash } from "./key_hash.ts";
export { type KeyRecord, usedIn } from "./key_record.ts";
export { SILENT_DAYS } from "./last_use.ts";
export {
  countKeysOf,
  findHints,
  findKey,
  hasKeys,
  type KeySummary,
  listKeys,
  MOST_PLACES,
} from "./list_keys.ts";
export { findMostRefused, type RefusedKey } from "./most_refused.ts";
export { INVALID_KEY, OBSTACLE_REFUSALS } from "./obstacle_refusals.ts";
export {
  describeObstacles,
  describeRefused,
  MUST_WAIT,
  OBSTACLES,
  type Obstacle,
  renderObstacles,
  sentenceOf,
} from "./obstacles.ts";
export { deleteRefusalCounts, listRefusalCounts, type RefusalCount } from "./refusal_counts.ts";
export { renderKeysCsv } from "./render_keys_csv.ts";
export { type RotatedKey, repeatRotation, replaceKey, rotateKey, USUAL_OVERLAP } from "./rotate_key.ts";
export type { MadeKey, StoreAnswer, StoredAnswer } from "./store_answer.ts";
