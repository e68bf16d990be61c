/** Machines: list, look at, release, and free places that signed licenses hold. */
import * as v from "valibot";
import { renderFields, schemasOf } from "../../base/answer_fields.ts";
import { idRule, parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import {
  countReleases,
  FREED_FIELDS,
  findMachine,
  findMachineFilter,
  freeByOperator,
  listMachines,
  MACHINE_CONDITIONS,
  MACHINE_FIELDS,
  MOST_RELEASED,
  RELEASE_COUNTS,
  RELEASE_FIELDS,
  RELEASED_FIELDS,
  RELEASES_REQUEST_MS,
  refuseUnknownMachine,
  releaseByOperator,
  releaseMachines,
  renderMachine,
} from "../../licensing/machines/mod.ts";
import { conditionFields, NEEDED_REASON, REASON } from "../frame/api/fields.ts";
import { findPage, PAGE_FIELDS, pageOf } from "../frame/api/page.ts";
import { machineFor } from "../frame/api/path_ids.ts";
import { route, titled } from "../frame/api/route.ts";

const MACHINE = titled("Machine", schemasOf(MACHINE_FIELDS));
const RELEASED_MACHINE = titled("ReleasedMachine", schemasOf(RELEASED_FIELDS));
const FREED_MACHINE = titled("FreedMachine", schemasOf(FREED_FIELDS));
const MACHINE_RELEASE = titled("MachineRelease", schemasOf(RELEASE_FIELDS));

const IDS_RULE = `must be a list of 1 to ${MOST_RELEASED} ids of machines`;

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

  route("POST /machines/release", "machines:release", {
    id: "releaseMachines",
    summary: "Release many machines, each as a release of its own",
    description:
      "A machine that cannot be released is refused alone, with `code` and `error`, and changes nothing for the others. The " +
      "results are in the order of the ids; an id that is sent twice has one. A request that is sent again releases nothing " +
      "twice.",
    body: v.strictObject({
      ids: v.pipe(
        v.array(parsedField(idRule("mch")), IDS_RULE),
        v.minLength(1, IDS_RULE),
        v.maxLength(MOST_RELEASED, IDS_RULE),
      ),
      ...REASON,
    }),
    success: {
      schema: titled("MachineReleases", {
        ...schemasOf(RELEASE_COUNTS),
        results: v.array(MACHINE_RELEASE),
      }),
      description: "What was released, and what was not",
    },
    async run({ database, clock }, { body, ...call }) {
      const releases = await releaseMachines(database, body.ids, {
        ...call,
        clock,
        mostMs: RELEASES_REQUEST_MS,
      });
      return {
        ...renderFields(RELEASE_COUNTS, countReleases(releases)),
        results: releases.map((release) => renderFields(RELEASE_FIELDS, release)),
      };
    },
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
      "The place stays taken while a license that was signed for the machine is valid: `taken_until` says until when. " +
      "Another operation frees such a place.",
    path: machineFor("release machine"),
    body: v.strictObject(REASON),
    success: { schema: RELEASED_MACHINE, description: "The machine is not active any more" },
    codes: ["CONFLICT"],
    async run({ database }, call) {
      const released = await releaseByOperator(database, call.uuid, call);
      return isRefusal(released) ? released : renderFields(RELEASED_FIELDS, released);
    },
  }),

  route("POST /machines/:id/free", "machines:free", {
    id: "freeMachine",
    summary: "Free the place of a machine that a signed license holds, such as a license file that is lost",
    description:
      "The place is free at once, and the machine is not active any more. The signed license itself cannot be ended: whoever " +
      "has it can use it without a network until `file_works_until`.",
    path: machineFor("free the place of machine"),
    body: v.strictObject(NEEDED_REASON),
    success: { schema: FREED_MACHINE, description: "The place is free" },
    codes: ["CONFLICT"],
    async run({ database }, call) {
      const freed = await freeByOperator(database, call.uuid, call);
      return isRefusal(freed) ? freed : renderFields(FREED_FIELDS, freed);
    },
  }),
];
