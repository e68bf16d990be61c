/** The fields of a machine in answers to operators. */
import * as v from "valibot";
import {
  count,
  fieldsOf,
  identifier,
  oneOfThese,
  renderFields,
  timestamp,
} from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { isRefusal } from "../../base/refusal.ts";
import type { FreedMachine } from "./free_by_operator.ts";
import type { MachineSummary } from "./list_machines.ts";
import { MACHINE_STATES, STATE_MEANINGS } from "./machine_state.ts";
import type { ReleasedMachine } from "./release_by_operator.ts";
import { type ForeseenReleases, type Release, type ReleaseCounts, toReleased } from "./release_many.ts";

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
  signed_until: field(
    v.nullable(timestamp()),
    ({ signedUntil }) => signedUntil && toTimestamp(signedUntil),
    "When the last license that was signed for it ends: also after a release its place stays taken until then; null if " +
      "no signed license holds its place",
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

const ofForeseen = fieldsOf<ForeseenReleases>();

/** What the release of many machines would do to all of them. */
export const FORESEEN_FIELDS = {
  machines: ofForeseen(count(), ({ machines }) => machines),
  licenses: ofForeseen(count(), ({ licenses }) => licenses),
  free: ofForeseen(count(), ({ free }) => free),
  taken: ofForeseen(count(), ({ taken }) => taken),
  taken_until: ofForeseen(v.nullable(timestamp()), ({ takenUntil }) => takenUntil && toTimestamp(takenUntil)),
} as const;

const ofRelease = fieldsOf<Release>();

/** What the release of many machines did to one of them. */
export const RELEASE_FIELDS = {
  id: ofRelease(identifier("mch"), ({ id }) => id),
  state: ofRelease(
    v.nullable(MACHINE_FIELDS.state.schema),
    (release) => toReleased(release)?.state ?? null,
    "Null if its release was refused",
  ),
  taken_until: ofRelease(v.nullable(timestamp()), (release) => {
    const { takenUntil = null } = toReleased(release) ?? {};
    return takenUntil && toTimestamp(takenUntil);
  }),
  changed: ofRelease(v.boolean(), (release) => toReleased(release)?.isChanged ?? false),
  code: ofRelease(
    v.nullable(v.string()),
    ({ result }) => (isRefusal(result) ? result.code : null),
    "Why its release was refused; null if it was not",
  ),
  error: ofRelease(v.nullable(v.string()), ({ result }) => (isRefusal(result) ? result.sentence : null)),
} as const;

const ofCounts = fieldsOf<ReleaseCounts>();

/** What the release of many machines did to all of them. */
export const RELEASE_COUNTS = {
  released: ofCounts(count(), ({ released }) => released),
  free: ofCounts(count(), ({ free }) => free, "How many places of the released machines are free"),
  taken: ofCounts(count(), ({ taken }) => taken, "How many of them stay taken, because licenses were signed"),
  taken_until: ofCounts(
    v.nullable(timestamp()),
    ({ takenUntil }) => takenUntil && toTimestamp(takenUntil),
    "When the last one of these becomes free",
  ),
  unchanged: ofCounts(count(), ({ unchanged }) => unchanged, "How many machines were not active"),
  refused: ofCounts(count(), ({ refused }) => refused),
} as const;

const ofFreed = fieldsOf<FreedMachine>();

/** The answer when a place that a signed license held was freed. */
export const FREED_FIELDS = {
  id: ofFreed(identifier("mch"), ({ id }) => id),
  state: ofFreed(MACHINE_FIELDS.state.schema, ({ state }) => state),
  file_works_until: ofFreed(
    timestamp(),
    ({ fileWorksUntil }) => toTimestamp(fileWorksUntil),
    "Until when the license that was signed for it still works without a network",
  ),
} as const;

/** Renders a machine as JSON, for `--json` of the commands and for the API. */
export function renderMachine(machine: MachineSummary) {
  return renderFields(MACHINE_FIELDS, machine);
}
