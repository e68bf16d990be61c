/** The handlers of machines: activate, heartbeat and release. */
import { LRUCache } from "lru-cache";
import * as v from "valibot";
import { toTimestamp } from "../base/calendar.ts";
import { toId } from "../base/ids.ts";
import { WindowTable } from "../base/rate_limits/mod.ts";
import { isRefusal } from "../base/refusal.ts";
import { parsedField } from "../base/rule.ts";
import {
  activateMachine,
  FINGERPRINT,
  MACHINE_NOT_ACTIVE,
  type RenewedSeat,
  releaseMachine,
} from "../licensing/machines/mod.ts";
import { optionalText, parseFields } from "../wire/mod.ts";
import { type CountOnce, RATE_LIMITED } from "./count_request.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";

/** The fields of a heartbeat and a release besides the key. */
export const machineFields = v.object({ fingerprint: parsedField(FINGERPRINT) });

/** The fields of an activation besides the key. */
export const activationFields = v.object({
  ...machineFields.entries,
  name: optionalText(200),
  platform: optionalText(200),
});

/** Creates the handler that activates a machine. */
export function activate({ authenticator, database, nameMachine, clock }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "machine_activate", body);
    if (isRefusal(record)) return record;
    const fields = parseFields(activationFields, body);
    if (isRefusal(fields)) return fields;
    const address = authenticator.addressOf(exchange);
    const activated = await activateMachine(database, {
      keyUuid: record.uuid,
      machine: nameMachine(record.licenseUuid, fields.fingerprint),
      name: fields.name ?? undefined,
      platform: fields.platform ?? undefined,
      actor: { kind: "http", name: address, address, request: exchange.id },
      now: clock.now(),
    });
    if (isRefusal(activated)) return activated;
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

/** Creates the handler that releases a machine. */
export function release({ authenticator, database, nameMachine }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "machine_release", body);
    if (isRefusal(record)) return record;
    const fields = parseFields(machineFields, body);
    if (isRefusal(fields)) return fields;
    const uuid = await releaseMachine(database, nameMachine(record.licenseUuid, fields.fingerprint));
    return uuid === undefined
      ? MACHINE_NOT_ACTIVE
      : reply({ released: true, machine_id: uuid && toId("mch", uuid) });
  };
}

function renderMachine({ uuid, activeUntil }: RenewedSeat) {
  return { machine_id: uuid && toId("mch", uuid), expires_at: activeUntil && toTimestamp(activeUntil) };
}
