/**
 * Machines: where a license runs. A license can have a number of places; a machine that is activated holds one until it
 * is released (node-locked) or its heartbeats stop (floating). Owns the tables `machines`, `self_releases`
 * and `full_places`.
 *
 * Every change of places is a function in SQL that locks the row of the license first and counts afterwards, in a
 * statement of its own: so it sees what the last holder of the lock committed, and no two changes count at once. The
 * upkeep only notes ends that have passed, so it needs no lock.
 */
export { activateMachine, toMachineId } from "./activate_machine.ts";
export {
  createMachineNames,
  FINGERPRINT,
  GIVEN_FINGERPRINT,
  givenFingerprint,
  type MachineName,
  type NameMachine,
  toStoredFingerprint,
} from "./fingerprint.ts";
export {
  type FreedMachine,
  findFreeable,
  freeByOperator,
  isFreeable,
} from "./free_by_operator.ts";
export {
  holdingMachineSchema,
  listForClient,
  MACHINE_ID,
  MACHINES_A_PAGE,
  machinesPageSchema,
  renderMachinesPage,
  USUAL_PAGE,
} from "./list_for_client.ts";
export { countMachines, findMachine, listMachines, type MachineSummary } from "./list_machines.ts";
export {
  FORESEEN_FIELDS,
  FREED_FIELDS,
  MACHINE_FIELDS,
  RELEASE_COUNTS,
  RELEASE_FIELDS,
  RELEASED_FIELDS,
  renderMachine,
} from "./machine_fields.ts";
export { findMachineFilter, MACHINE_CONDITIONS, type MachineFilter } from "./machine_filter.ts";
export {
  countTaken,
  isHolding,
  isTaken,
  MACHINE_STATES,
  type MachineState,
  STATE_MEANINGS,
} from "./machine_state.ts";
export {
  deleteEndedMachines,
  machinesUpkeep,
  noteEnds,
  noteEndsUpkeep,
} from "./machines_upkeep.ts";
export { releaseById } from "./release_by_id.ts";
export {
  findReleasable,
  refuseUnknownMachine,
  releaseByOperator,
} from "./release_by_operator.ts";
export { MACHINE_NOT_ACTIVE, releaseMachine } from "./release_machine.ts";
export {
  countReleases,
  describeForeseen,
  describeReleases,
  findActive,
  foreseeReleases,
  MOST_RELEASED,
  RELEASES_REQUEST_MS,
  type Release,
  releaseMachines,
} from "./release_many.ts";
export { createHeartbeats, type Heartbeats, type RenewedSeat } from "./renew_seats.ts";
export { restoreMachines } from "./restore_machines.ts";
export { findPlaces, holdPlace, keepPlace } from "./signed_places.ts";
export { createWaitingMachines } from "./waiting_machines.ts";
