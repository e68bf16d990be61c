/** Machines: list, look at and release. */
import * as v from "valibot";
import { renderFields, schemasOf } from "../../base/answer_fields.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import {
  findMachine,
  findMachineFilter,
  listMachines,
  MACHINE_CONDITIONS,
  MACHINE_FIELDS,
  RELEASED_FIELDS,
  refuseUnknownMachine,
  releaseByOperator,
  renderMachine,
} from "../../licensing/machines/mod.ts";
import { conditionFields, REASON } from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { machineFor } from "../frame/api/path_ids.ts";
import { route, titled } from "../frame/api/route.ts";

const MACHINE = titled("Machine", schemasOf(MACHINE_FIELDS));
const RELEASED_MACHINE = titled("ReleasedMachine", schemasOf(RELEASED_FIELDS));

export const MACHINE_ROUTES = [
  route("GET /machines", "machines:read", {
    id: "listMachines",
    summary: "List the machines that meet every condition, by default in the order of their first activation",
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
      return isRefusal(released) ? released : renderFields(RELEASED_FIELDS, released);
    },
  }),
];
