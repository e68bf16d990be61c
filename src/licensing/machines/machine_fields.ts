/** The fields of a machine in answers to operators. */
import * as v from "valibot";
import { fieldsOf, identifier, oneOfThese, renderFields, timestamp } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import type { MachineSummary } from "./list_machines.ts";
import { MACHINE_STATES, STATE_MEANINGS } from "./machine_state.ts";
import type { ReleasedMachine } from "./release_by_operator.ts";

const field = fieldsOf<MachineSummary>();
const SENT = "As the client sent it; null if it sent none";

export const MACHINE_FIELDS = {
  id: field(identifier("mch"), ({ id }) => id),
  user_id: field(identifier("usr"), ({ userId }) => userId),
  license_id: field(identifier("lic"), ({ licenseId }) => licenseId),
  email: field(v.string(), ({ email }) => email),
  name: field(v.nullable(v.string()), ({ name }) => name, SENT),
  platform: field(v.nullable(v.string()), ({ platform }) => platform, SENT),
  state: field(
    oneOfThese(MACHINE_STATES),
    ({ state }) => state,
    MACHINE_STATES.map((state) => `\`${state}\`: ${STATE_MEANINGS[state]}`).join("; "),
  ),
  activated_at: field(
    timestamp(),
    ({ activatedAt }) => toTimestamp(activatedAt),
    "Since when it holds its place, or held its last one",
  ),
  last_seen_at: field(
    timestamp(),
    ({ lastSeenAt }) => toTimestamp(lastSeenAt),
    "Its last activation or heartbeat",
  ),
  active_until: field(
    v.nullable(timestamp()),
    ({ activeUntil }) => activeUntil && toTimestamp(activeUntil),
    "When its seat ends without a heartbeat; null if only a release ends it, or if it is not active",
  ),
  taken_until: field(
    v.nullable(timestamp()),
    ({ takenUntil }) => takenUntil && toTimestamp(takenUntil),
    "When its place becomes free by itself; null if only a release frees it, or if it holds none",
  ),
} as const;

const ofReleased = fieldsOf<ReleasedMachine>();

/** The answer to a release. */
export const RELEASED_FIELDS = {
  id: ofReleased(identifier("mch"), ({ id }) => id),
  state: ofReleased(MACHINE_FIELDS.state.schema, ({ state }) => state),
  taken_until: ofReleased(
    v.nullable(timestamp()),
    ({ takenUntil }) => takenUntil && toTimestamp(takenUntil),
    "Until when its place stays taken, because a license was signed for it; null if it is free",
  ),
  changed: ofReleased(
    v.boolean(),
    ({ isChanged }) => isChanged,
    "False if it was not active: then only a signed license holds its place",
  ),
} as const;

/** Renders a machine as JSON, for `--json` of the commands and for the API. */
export function renderMachine(machine: MachineSummary) {
  return renderFields(MACHINE_FIELDS, machine);
}
