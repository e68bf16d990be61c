/** Machines: list, look at and release. */
import * as v from "valibot";
import { described, identifier, oneOfThese, timestamp } from "../../base/answer_fields.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import {
  findMachine,
  findMachineFilter,
  listMachines,
  MACHINE_CONDITIONS,
  MACHINE_STATES,
  refuseUnknownMachine,
  releaseByOperator,
  renderMachine,
  STATE_MEANINGS,
} from "../../licensing/machines/mod.ts";
import { conditionFields, REASON } from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { machineFor } from "../frame/api/path_ids.ts";
import { route, titled } from "../frame/api/route.ts";

const TEXT = described(v.nullable(v.string()), "As the client sent it; null if it sent none");
const STATE = described(
  oneOfThese(MACHINE_STATES),
  MACHINE_STATES.map((state) => `\`${state}\`: ${STATE_MEANINGS[state]}`).join("; "),
);

const MACHINE = titled("Machine", {
  id: identifier("mch"),
  user_id: identifier("usr"),
  license_id: identifier("lic"),
  email: v.string(),
  name: TEXT,
  platform: TEXT,
  state: STATE,
  activated_at: described(timestamp(), "Since when it holds its place, or held its last one"),
  last_seen_at: described(timestamp(), "Its last activation or heartbeat"),
  active_until: described(
    v.nullable(timestamp()),
    "When its seat ends without a heartbeat; null if only a release ends it, or if it is not active",
  ),
  taken_until: described(
    v.nullable(timestamp()),
    "When its place becomes free by itself; null if only a release frees it, or if it holds none",
  ),
});

const RELEASED_MACHINE = titled("ReleasedMachine", {
  id: identifier("mch"),
  state: STATE,
  taken_until: described(
    v.nullable(timestamp()),
    "Until when its place stays taken, because a license was signed for it; null if it is free",
  ),
  changed: described(v.boolean(), "False if it was not active: then only a signed license holds its place"),
});

export const MACHINE_ROUTES = [
  route("GET /machines", "machines:read", {
    id: "listMachines",
    summary: "List the machines that meet every condition, in the order of their first activation",
    description:
      "Until version 0.4 `released` was the state that is `offline` now, and machines that are `released` now were `ended`.",
    query: v.strictObject({ ...conditionFields(MACHINE_CONDITIONS), ...PAGE_FIELDS }),
    success: { schema: pageOf(MACHINE), description: "A page of machines" },
    codes: ["NOT_FOUND"],
    run: ({ database }, { query, now, restriction }) =>
      findPage({
        list: "machines",
        query,
        now,
        async find({ position, limit }, conditions) {
          const filter = await findMachineFilter(database, conditions);
          if (isRefusal(filter)) return filter;
          const part = { restriction, afterUuid: position, limit };
          return await listMachines(database, { filter: { ...filter, ...part } });
        },
        positionOf: ({ id }) => parseId("mch", id) ?? "",
        render: renderMachine,
      }),
  }),

  route("GET /machines/:id", "machines:read", {
    id: "getMachine",
    summary: "Show a machine",
    path: machineFor("show machine"),
    success: { schema: MACHINE, description: "The machine" },
    async run({ database }, call) {
      const { uuid, what } = call;
      const machine = await findMachine(database, uuid, call);
      return machine === undefined ? refuseUnknownMachine(what, uuid) : renderMachine(machine);
    },
  }),

  route("POST /machines/:id/release", "machines:release", {
    id: "releaseMachine",
    summary: "Release a machine: its place is free for another one",
    description:
      "The place stays taken while a license that was signed for the machine is valid: `taken_until` says until when.",
    path: machineFor("release machine"),
    body: v.strictObject(REASON),
    success: { schema: RELEASED_MACHINE, description: "The machine is not active any more" },
    codes: ["CONFLICT"],
    async run({ database }, call) {
      const released = await releaseByOperator(database, call.uuid, call);
      if (isRefusal(released)) return released;
      const { id, state, takenUntil, isChanged } = released;
      return { id, state, taken_until: takenUntil && toTimestamp(takenUntil), changed: isChanged };
    },
  }),
];
