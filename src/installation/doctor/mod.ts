/**
 * Examines an installation and lists findings: what works, what will soon fail, and what is wrong, each with a remedy
 * in one line. Changes nothing, and works whether the service runs or not.
 *
 * `examineHost` needs no database, `examineDatabase` needs an open database, and a caller can pass it more checks.
 * `examineBriefly` is for the running service.
 */
export { askHealth, type HealthAnswer, toHealthUrl } from "./ask_health.ts";
export { type DatabaseContext, examineBriefly, examineDatabase, skipDatabase } from "./examine_database.ts";
export { examineHost } from "./examine_host.ts";
export { keysCheck } from "./examine_keys.ts";
export { findWrongModelFiles } from "./examine_model_files.ts";
export { KNOWN_MINORS } from "./examine_server.ts";
export { findExposedFile } from "./find_exposed_file.ts";
export { findOtherCopy } from "./find_other_copy.ts";
export {
  type Check,
  type CheckResult,
  DAMAGE,
  examine,
  type Finding,
  type FoundCauses,
  fail,
  ok,
  skip,
  warn,
} from "./finding.ts";
export { measureDatabase } from "./measure_database.ts";
