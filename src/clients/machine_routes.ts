/** Machines: activate, heartbeat and release. `machine_list_routes.ts` lists them. */
import { LRUCache } from "lru-cache";
import * as v from "valibot";
import { toTimestamp } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import { WindowTable } from "../base/rate_limits/mod.ts";
import { isRefusal, refuse } from "../base/refusal.ts";
import { parsedField } from "../base/rule.ts";
import {
  activateMachine,
  createWaitingMachines,
  FINGERPRINT,
  MACHINE_ID,
  MACHINE_NOT_ACTIVE,
  type RenewedSeat,
  releaseById,
  releaseMachine,
} from "../licensing/machines/mod.ts";
import { optionalText, parseFields } from "../wire/mod.ts";
import { type CountOnce, RATE_LIMITED } from "./count_request.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { type EndpointOperation, jsonBody, WITH_BODY, WITH_GOOD_KEY } from "./operation.ts";

/** The fields of a heartbeat besides the key. */
export const machineFields = v.object({ fingerprint: parsedField(FINGERPRINT) });

/** The fields of a release besides the key; it has exactly one of them. */
export const releaseFields = v.object({
  fingerprint: v.optional(parsedField(FINGERPRINT, { description: "This machine, or else `machine_id`" })),
  machine_id: v.optional(
    parsedField(MACHINE_ID, { description: "A machine of the list, or else `fingerprint`" }),
  ),
});

/** The fields of an activation besides the key. */
export const activationFields = v.object({
  ...machineFields.entries,
  name: optionalText(200),
  platform: optionalText(200),
});

const EXAMPLE_FINGERPRINT = { fingerprint: "3f2c9a51-workstation-7" };
const EXAMPLE_MACHINE = {
  machine_id: "mch_019a0000000070008000000000000000",
  expires_at: "2026-11-20T10:30:00Z",
};
const CODES = [...WITH_GOOD_KEY, ...WITH_BODY] as const;

/** What activate does. */
export const ACTIVATE: EndpointOperation = {
  id: "activateMachine",
  summary: "Take a place of the license for this machine",
  description:
    "A machine that holds a place keeps it, so the request can be repeated. A license without a limit for machines " +
    "answers 200 and stores nothing. If every place is taken, the client waits for one: it asks again after the seconds in " +
    "`Retry-After`, which grow with the number of machines that wait.",
  request: jsonBody("ActivationRequest", {
    ...EXAMPLE_FINGERPRINT,
    name: "Workstation 7",
    platform: "linux",
  }),
  success: {
    schema: "Activation",
    description: "The machine holds a place",
    example: { ...EXAMPLE_MACHINE, machines: { limit: 30, used: 12 } },
  },
  codes: [...CODES, "MACHINE_LIMIT_REACHED"],
};

/** Creates the handler that activates a machine. */
export function activate({ authenticator, database, nameMachine, clock }: HandlerDeps): Handler {
  const waiting = createWaitingMachines(clock);
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "machine_activate", body);
    if (isRefusal(record)) return record;
    const fields = parseFields(activationFields, body);
    if (isRefusal(fields)) return fields;
    const machine = nameMachine(record.licenseUuid, fields.fingerprint);
    const asking = { record, activationsAMinute: exchange.verdict?.limit ?? 0 };
    const known = waiting.findRefusal(machine, asking);
    if (known !== undefined) return known;
    const askedMs = clock.monotonicMs();
    const activated = await activateMachine(database, {
      keyUuid: record.uuid,
      machine,
      name: fields.name ?? undefined,
      platform: fields.platform ?? undefined,
      actor: authenticator.actorOf(exchange),
      now: clock.now(),
    });
    if (isRefusal(activated)) return waiting.noteRefusal(machine, activated, { ...asking, askedMs });
    const { most, used } = activated;
    return reply({ ...renderMachine(activated), machines: { limit: most, used } });
  };
}

/** The most heartbeats of one machine in a minute, in each process. */
const HEARTBEATS_A_MINUTE = 10;
/** The most machines with a window, and the most that are known to be active. */
const MAX_MACHINES = 100_000;

/** Counts nothing beforehand: the handler of heartbeats knows only at the end which window counts. */
const LATER: CountOnce = { wasCounted: () => true, note() {} };

/** What a heartbeat does. */
export const HEARTBEAT: EndpointOperation = {
  id: "renewSeat",
  summary: "Say that this machine still runs",
  description:
    "Renews its seat. At most 10 a minute for each machine that is active; all others count in the window of the key. " +
    "After `MACHINE_NOT_FOUND` activate the machine again.",
  request: jsonBody("MachineRequest", EXAMPLE_FINGERPRINT),
  success: { schema: "Heartbeat", description: "The machine is active", example: EXAMPLE_MACHINE },
  codes: [...CODES, "MACHINE_NOT_FOUND"],
};

/**
 * Creates the handler that renews the seat of a machine. A heartbeat of a machine that is active counts in the window of
 * the machine, so that thousands of seats can have one key; every other one counts in the window of the key. Only the
 * database knows which machines are active. So a machine that this process does not know yet is asked for there, unless
 * the window of the key is full.
 */
export function heartbeat(deps: HandlerDeps): Handler {
  const { authenticator, heartbeats, nameMachine, clock, limits } = deps;
  const windows = new WindowTable(limits.machine_heartbeat === 0 ? 0 : HEARTBEATS_A_MINUTE, MAX_MACHINES);
  const active = new LRUCache<string, true>({ max: MAX_MACHINES });

  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "machine_heartbeat", body, LATER);
    if (isRefusal(record)) return record;
    const countForKey = () => authenticator.countAfterAll(exchange, "machine_heartbeat");
    const fields = parseFields(machineFields, body);
    if (isRefusal(fields)) return (await countForKey()) ?? fields;
    const machine = nameMachine(record.licenseUuid, fields.fingerprint);
    const { hash } = machine;
    const isKnown = active.has(hash);
    const take = () => {
      exchange.verdict = windows.take(hash, clock.monotonicMs());
      return exchange.verdict.allowed;
    };
    if (isKnown ? !take() : exchange.verdict?.allowed === false) return RATE_LIMITED;
    let seat: RenewedSeat | null;
    try {
      seat = await heartbeats.renew(machine);
    } catch (error) {
      // The client does not pay for a database that does not answer.
      if (isKnown && exchange.verdict !== undefined)
        exchange.verdict = windows.takeBack(hash, exchange.verdict, clock.monotonicMs());
      throw error;
    }
    if (seat === null || seat.uuid === null) {
      active.delete(hash);
      return (await countForKey()) ?? (seat === null ? MACHINE_NOT_ACTIVE : reply(renderMachine(seat)));
    }
    active.set(hash, true);
    return isKnown || take() ? reply(renderMachine(seat)) : RATE_LIMITED;
  };
}

/** What release does. */
export const RELEASE: EndpointOperation = {
  id: "releaseMachine",
  summary: "Give the place of this machine back, or that of another machine of the license",
  description:
    "Exactly one of `fingerprint` (this machine) and `machine_id` (a machine of `/v1/machines/list`). The place is free when " +
    "the last license that was signed for the machine has ended. The license bounds the releases by id: those of some days, " +
    "which the list tells. A release by id answers with the state of the machine, too.",
  request: jsonBody("ReleaseRequest", EXAMPLE_FINGERPRINT),
  success: {
    schema: "Release",
    description: "The machine is not active any more",
    example: { released: true, machine_id: EXAMPLE_MACHINE.machine_id },
  },
  codes: [...CODES, "MACHINE_NOT_FOUND", "RELEASE_LIMIT_REACHED"],
};

const ONE_ALONE = refuse("INVALID_REQUEST", "Give fingerprint or machine_id, and not both");

/** Creates the handler that releases a machine. */
export function release({ authenticator, database, nameMachine, directory, clock }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "machine_release", body);
    if (isRefusal(record)) return record;
    const fields = parseFields(releaseFields, body);
    if (isRefusal(fields)) return fields;
    const { fingerprint, machine_id: uuid } = fields;
    const { licenseUuid, uuid: keyUuid } = record;
    if (uuid !== undefined && fingerprint === undefined) {
      const by = { keyUuid, actor: authenticator.actorOf(exchange), now: clock.now() };
      const released = await releaseById(database, { licenseUuid, uuid, ...by });
      if (isRefusal(released)) return released;
      const { id, state, takenUntil } = released;
      return answer(id, { state, taken_until: takenUntil && toTimestamp(takenUntil) });
    }
    if (fingerprint !== undefined && uuid !== undefined) return ONE_ALONE;
    // Without both, the answer is what it is for every field that is missing.
    const named = parseFields(machineFields, body);
    if (isRefusal(named)) return named;
    const released = await releaseMachine(database, nameMachine(licenseUuid, named.fingerprint));
    return released === undefined ? MACHINE_NOT_ACTIVE : answer(released && toId("mch", released), {});

    function answer(machineId: string | null, more: object) {
      // So that a machine that waits can have the place now, and not after the next pulse.
      if (machineId !== null) directory.forgetLicense(licenseUuid);
      return reply({ released: true, machine_id: machineId, ...more });
    }
  };
}

function renderMachine({ uuid, activeUntil }: RenewedSeat) {
  return { machine_id: uuid && toId("mch", uuid), expires_at: activeUntil && toTimestamp(activeUntil) };
}
