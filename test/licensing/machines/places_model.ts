/**
 * Runs random sequences of commands on the places of many licenses, and on a plain reference in memory. Every answer and
 * the number of places that are taken are compared after each command. The clock of the database stands during a round,
 * in which each license gets one command, and steps between two rounds: mostly ahead, at times back.
 */

import { newUuid } from "../../../src/base/ids.ts";
import { isRefusal } from "../../../src/base/refusal.ts";
import type { Database } from "../../../src/database/mod.ts";
import {
  activateMachine,
  createHeartbeats,
  createMachineNames,
  freeByOperator,
  type Heartbeats,
  releaseMachine,
} from "../../../src/licensing/machines/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { setDatabaseClock } from "../../support/database_clock.ts";
import { ACTOR, NOW } from "../../support/issue.ts";
import { licenseWith, type TestLicense } from "../../support/machines.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { openSecrets } from "../../support/secrets.ts";

export interface Sequences {
  readonly seed: number;
  /** How many sequences run at once, each on a license of its own. */
  readonly licenses: number;
  /** The number of commands of each sequence. */
  readonly rounds: number;
}

type Command =
  | { readonly kind: "activate" | "beat" | "release"; readonly machine: string }
  /** An operator frees the place that a signed license holds. */
  | { readonly kind: "free"; readonly machine: string }
  /** The seat of an active machine ended a second ago. Without a limit no machine is active. */
  | { readonly kind: "end seat"; readonly machine: string }
  /** A license is signed for the machine, and holds its place until then. */
  | { readonly kind: "sign"; readonly machine: string; readonly untilMs: number }
  | { readonly kind: "change"; readonly most: number | null; readonly minutes: number | null };

const MACHINES = ["machine-a", "machine-b", "machine-c", "machine-d", "machine-e"];
/** The steps of the clock lie near the ends of seats of 5 and 6 minutes. */
const STEPS_MS = [
  ...[0, 0, 1, 999, 1_000, 60_000, 60_000, 150_000, 150_000, 299_999, 300_000, 300_001, 360_000, 700_000],
  ...[-1, -1_000, -300_000, -600_000],
];
const BEGIN_MS = Date.UTC(2027, 0, 1);

const nameMachine = createMachineNames(openSecrets());

/** Compares as many sequences as there are licenses. Throws with the seed and the commands of the license that differs. */
export async function checkSequences(
  database: Database,
  { seed, licenses, rounds }: Sequences,
): Promise<void> {
  const steps = createRandom(seed);
  const clock = createTestClock(undefined, { stands: true });
  const heartbeats = createHeartbeats(database, clock);
  const checked: CheckedLicense[] = [];
  for (let index = 0; index < licenses; index++) {
    const random = createRandom(seed + index + 1);
    checked.push(new CheckedLicense(await licenseWith(database, {}), { database, heartbeats, random }));
  }
  let nowMs = BEGIN_MS;
  for (let round = 0; round < rounds; round++) {
    nowMs += steps.pick(STEPS_MS);
    await setDatabaseClock(database, nowMs, { speed: 0 });
    // So the heartbeats of the last round delay none of this one.
    clock.advance(1_000);
    await Promise.all(checked.map((license) => license.step(nowMs)));
    const held = await countHeld(database);
    for (const license of checked) license.compareHeld(held.get(license.uuid) ?? 0);
    const different = checked.find(({ difference }) => difference !== undefined);
    if (different !== undefined)
      throw new Error(`With MACHINES_SEED=${seed}: ${different.difference}\n${different.lines.join("\n")}`);
  }
}

interface CheckedOptions {
  readonly database: Database;
  readonly heartbeats: Heartbeats;
  readonly random: Random;
}

/** A license and its reference. */
class CheckedLicense {
  readonly uuid: string;
  /** The commands so far, for people. */
  readonly lines: string[] = [];
  difference: string | undefined;
  readonly #license: TestLicense;
  readonly #options: CheckedOptions;
  readonly #places = new ModelPlaces();
  /** The UUID of each machine that was ever activated. */
  readonly #uuids = new Map<string, string>();

  constructor(license: TestLicense, options: CheckedOptions) {
    this.#license = license;
    this.#options = options;
    this.uuid = license.licenseUuid;
  }

  async step(nowMs: number): Promise<void> {
    const command = drawCommand(this.#options.random, {
      places: this.#places,
      nowMs,
      isFirst: this.lines.length === 0,
    });
    const expected = this.#places.run(command, nowMs);
    const actual = await this.#perform(command, nowMs);
    this.lines.push(
      `  ${new Date(nowMs).toISOString()} ${JSON.stringify(command)} → ${JSON.stringify(actual)}`,
    );
    if (!Bun.deepEquals(actual, expected))
      this.difference ??= `the answer is not ${JSON.stringify(expected)}`;
  }

  compareHeld(held: number): void {
    const should = this.#places.countHeld();
    if (held !== should) this.difference ??= `${held} rows hold a place instead of ${should}`;
  }

  async #perform(command: Command, nowMs: number): Promise<Answer> {
    const { database, heartbeats } = this.#options;
    if (command.kind === "change") {
      await this.#license.change({ maxMachines: command.most, seatMinutes: command.minutes });
      return null;
    }
    const { licenseUuid, keyUuid } = this.#license;
    const machine = nameMachine(licenseUuid, command.machine);
    const hash = `\\x${machine.hash}`;
    switch (command.kind) {
      case "activate": {
        const activated = await activateMachine(database, { keyUuid, machine, actor: ACTOR, now: NOW });
        if (isRefusal(activated)) {
          const { machines, retryAfterSeconds = null } = activated as unknown as RefusedPlace;
          return { refused: machines, retryAfterSeconds };
        }
        const { uuid, activeUntil, most, used } = activated;
        return { machine: this.#nameOf(command.machine, uuid), untilMs: toMs(activeUntil), most, used };
      }
      case "beat": {
        const seat = await heartbeats.renew(machine);
        return seat && { machine: this.#nameOf(command.machine, seat.uuid), untilMs: toMs(seat.activeUntil) };
      }
      case "release": {
        const uuid = await releaseMachine(database, machine);
        return uuid === undefined ? null : { machine: this.#nameOf(command.machine, uuid) };
      }
      case "free": {
        const uuid = this.#uuids.get(command.machine);
        const freed = uuid && (await freeByOperator(database, uuid, { actor: ACTOR, now: NOW }));
        return !freed || isRefusal(freed)
          ? null
          : { machine: command.machine, untilMs: toMs(freed.fileWorksUntil) };
      }
      case "sign": {
        const [row] = await database.query<{ uuid: string | null; most: number | null; used: number | null }>(
          (sql) => sql`
            select machine_id as uuid, most, used
              from take_place(${licenseUuid}::uuid, ${hash}::text::bytea, ${newUuid()}::uuid, null, null, false,
                              ${new Date(command.untilMs)}::timestamptz)`,
        );
        const { uuid = null, most = null, used = null } = row ?? {};
        return { machine: this.#nameOf(command.machine, uuid), most, used };
      }
      case "end seat":
        await database.query(
          (sql) => sql`
            update machines set active_until = ${new Date(nowMs - 1_000)}::timestamptz
             where license_id = ${licenseUuid}::uuid and fingerprint = ${hash}::text::bytea and ended_at is null
               and active_until > ${new Date(nowMs)}::timestamptz`,
        );
        return null;
    }
  }

  /** Returns the name of a machine if it has the same UUID as ever. */
  #nameOf(machine: string, uuid: string | null): string | null {
    if (uuid === null) return null;
    const known = this.#uuids.get(machine) ?? uuid;
    this.#uuids.set(machine, known);
    return known === uuid ? machine : `another UUID for ${machine}`;
  }
}

type Answer = Readonly<Record<string, unknown>> | null;

interface RefusedPlace {
  readonly machines: { readonly limit: number; readonly used: number };
  readonly retryAfterSeconds?: number;
}

function toMs(date: Date | null): number | null {
  return date === null ? null : date.getTime();
}

interface DrawOptions {
  readonly places: ModelPlaces;
  readonly nowMs: number;
  readonly isFirst: boolean;
}

function drawCommand(random: Random, { places, nowMs, isFirst }: DrawOptions): Command {
  const machine = random.pick(MACHINES);
  const drawn = isFirst ? 99 : random.between(0, 99);
  if (drawn < 45) return { kind: "activate", machine };
  if (drawn < 65) return { kind: "beat", machine };
  if (drawn < 77) return { kind: "release", machine };
  if (drawn < 80) return { kind: "end seat", machine };
  if (drawn < 86) return { kind: "sign", machine, untilMs: nowMs + random.between(-1, 600) * 1_000 };
  // A removed limit comes back soon.
  if (drawn < 89) return { kind: "change", most: null, minutes: null };
  if (drawn < 91) return { kind: "free", machine };
  const most = random.between(1, 4);
  if (drawn < 95 && places.most !== null) return { kind: "change", most, minutes: places.minutes };
  return { kind: "change", most: places.most ?? most, minutes: random.pick([null, 5, 6]) };
}

interface ModelMachine {
  activeUntilMs: number;
  signedUntilMs: number;
  isEnded: boolean;
}

/** The reference: the places of one license, written down as the rule says it. */
class ModelPlaces {
  most: number | null = null;
  minutes: number | null = null;
  readonly #machines = new Map<string, ModelMachine>();

  run(command: Command, nowMs: number): Answer {
    switch (command.kind) {
      case "activate":
        return this.#activate(command.machine, nowMs);
      case "beat": {
        if (this.most === null) return { machine: null, untilMs: null };
        const active = this.#active(command.machine, nowMs);
        if (active === undefined) return null;
        active.activeUntilMs = this.#seatEnd(nowMs);
        return { machine: command.machine, untilMs: finite(active.activeUntilMs) };
      }
      case "release": {
        if (this.most === null) return { machine: null };
        const active = this.#active(command.machine, nowMs);
        if (active === undefined) return null;
        active.activeUntilMs = Number.NEGATIVE_INFINITY;
        active.isEnded = active.signedUntilMs <= nowMs;
        return { machine: command.machine };
      }
      case "free": {
        const machine = this.#machines.get(command.machine);
        if (machine === undefined || machine.isEnded || machine.signedUntilMs <= nowMs) return null;
        const untilMs = machine.signedUntilMs;
        machine.activeUntilMs = Number.NEGATIVE_INFINITY;
        machine.signedUntilMs = Number.NEGATIVE_INFINITY;
        machine.isEnded = true;
        return { machine: command.machine, untilMs };
      }
      case "sign": {
        if (this.most === null) return { machine: null, most: null, used: null };
        const machine = this.#take(command.machine, nowMs);
        if (machine === undefined) return { machine: null, most: this.most, used: this.countHeld() };
        machine.signedUntilMs = Math.max(machine.signedUntilMs, command.untilMs);
        return { machine: command.machine, most: this.most, used: this.countHeld() };
      }
      case "end seat": {
        const active = this.#active(command.machine, nowMs);
        if (active !== undefined) active.activeUntilMs = nowMs - 1_000;
        return null;
      }
      case "change":
        this.#change(command, nowMs);
        return null;
    }
  }

  countHeld(): number {
    return this.#held().length;
  }

  #activate(name: string, nowMs: number): Answer {
    const { most } = this;
    if (most === null) return { machine: null, untilMs: null, most: null, used: 0 };
    const machine = this.#take(name, nowMs);
    const held = this.#held();
    if (machine === undefined) {
      // So many places have to become free.
      const ends = held.map(endOf).sort((a, b) => a - b);
      const roomMs = ends[held.length - most] ?? Number.POSITIVE_INFINITY;
      const seconds = Math.max(1, Math.ceil((roomMs - nowMs) / 1_000));
      return { refused: { limit: most, used: held.length }, retryAfterSeconds: finite(seconds) };
    }
    machine.activeUntilMs = this.#seatEnd(nowMs);
    return { machine: name, untilMs: finite(machine.activeUntilMs), most, used: held.length };
  }

  /** Returns the machine if it holds a place or gets one. Then it may not be active yet. */
  #take(name: string, nowMs: number): ModelMachine | undefined {
    for (const machine of this.#held()) machine.isEnded = endOf(machine) <= nowMs;
    const known = this.#machines.get(name);
    if (known?.isEnded === false) return known;
    if (this.countHeld() >= (this.most ?? 0)) return undefined;
    const machine = {
      activeUntilMs: Number.NEGATIVE_INFINITY,
      signedUntilMs: known?.signedUntilMs ?? Number.NEGATIVE_INFINITY,
      isEnded: false,
    };
    this.#machines.set(name, machine);
    return machine;
  }

  #change({ most, minutes }: Extract<Command, { kind: "change" }>, nowMs: number): void {
    const isRemoved = most === null && this.most !== null;
    const isOtherLength = minutes !== this.minutes;
    [this.most, this.minutes] = [most, minutes];
    if (!isRemoved && !isOtherLength) return;
    for (const machine of this.#held()) {
      const isActive = machine.activeUntilMs > nowMs && !isRemoved;
      machine.isEnded = !isActive && machine.signedUntilMs <= nowMs;
      machine.activeUntilMs = isActive ? this.#seatEnd(nowMs) : Number.NEGATIVE_INFINITY;
    }
  }

  #active(name: string, nowMs: number): ModelMachine | undefined {
    const machine = this.#machines.get(name);
    return machine !== undefined && !machine.isEnded && machine.activeUntilMs > nowMs ? machine : undefined;
  }

  #held(): ModelMachine[] {
    return [...this.#machines.values()].filter(({ isEnded }) => !isEnded);
  }

  #seatEnd(nowMs: number): number {
    return this.minutes === null ? Number.POSITIVE_INFINITY : nowMs + this.minutes * 60_000;
  }
}

function endOf({ activeUntilMs, signedUntilMs }: ModelMachine): number {
  return Math.max(activeUntilMs, signedUntilMs);
}

function finite(ms: number): number | null {
  return Number.isFinite(ms) ? ms : null;
}

async function countHeld(database: Database): Promise<Map<string, number>> {
  const rows = await database.query<{ uuid: string; held: number }>(
    (sql) => sql`
      select license_id::text as uuid, count(*)::int as held from machines where ended_at is null group by 1`,
  );
  return new Map(rows.map(({ uuid, held }) => [uuid, held]));
}
