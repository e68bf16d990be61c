/**
 * 200 clients for 30 floating places, while something is killed, and the history of it. A minute of the database's clock
 * passes in a second, so a seat of 5 minutes ends 5 s after its last heartbeat, by itself.
 */
import { expect } from "bun:test";
import type { Database } from "../../../src/database/mod.ts";
import { createMachineNames, noteEnds } from "../../../src/licensing/machines/mod.ts";
import { readDatabaseClock, setDatabaseClock } from "../../support/database_clock.ts";
import { licenseWith } from "../../support/machines.ts";
import type { Random } from "../../support/random.ts";
import { openSecrets } from "../../support/secrets.ts";
import {
  type JournalLine,
  Occupancy,
  type OfMachine,
  toHoldings,
  unfounded,
  wronglyLost,
  wrongRefusals,
} from "./places_history.ts";

export interface PlacesTarget {
  /** Opened after {@linkcode preparePlaces}, so that its connections read the clock of the test. */
  readonly database: Database;
  /** Sends a request to one of the services. Undefined if the connection was refused or cut. */
  post(path: string, body: object): Promise<PlacesAnswer | undefined>;
}

export interface PlacesAnswer {
  readonly status: number;
  /** Undefined if it is no JSON, as from a balancer. */
  readonly body: { readonly machine_id?: string; readonly code?: string } | undefined;
}

const CLIENTS = 200;
const PLACES = 30;
const SEAT_MINUTES = 5;
const SPEED = 60;
/** The statuses of services and a balancer that lost a connection. The request may have been done. */
const UNKNOWN = [undefined, 502, 503, 504];

/** Prepares a database whose services are not started yet, or are started again afterwards. */
export async function preparePlaces(database: Database): Promise<void> {
  await setDatabaseClock(database, Date.now(), { speed: SPEED });
  await database.query((sql) =>
    sql.unsafe(`
      create table test_clock.journal (
        line bigint generated always as identity, machine bytea not null, id uuid not null, at timestamptz not null,
        until timestamptz not null
      );
      create function test_clock.note_machine() returns trigger language plpgsql as $$
      begin
        insert into test_clock.journal (machine, id, at, until)
        values (new.fingerprint, new.id, coalesce(new.ended_at, new.last_seen_at),
                case when new.ended_at is null then greatest(new.active_until, new.signed_until) else '-infinity' end);
        return null;
      end $$;
      create trigger note_machine after insert or update on machines
        for each row execute function test_clock.note_machine()`),
  );
}

/** Starts the clients. `stop` judges the history. */
export async function startPlaces({ database, post }: PlacesTarget, random: Random) {
  const license = await licenseWith(database, { maxMachines: PLACES, seatMinutes: SEAT_MINUTES });
  const nameMachine = createMachineNames(openSecrets());
  const confirmed: OfMachine[] = [];
  const lost: OfMachine[] = [];
  const refusals: OfMachine[] = [];
  const cut: OfMachine[] = [];
  const ids = new Map<string, Set<string>>();
  const unexpected: string[] = [];
  let isStopped = false;

  /** Sends a request of a machine until its outcome is known. Returns the status. */
  async function send(action: "activate" | "heartbeat" | "release", fingerprint: string) {
    const machine = nameMachine(license.licenseUuid, fingerprint).hash;
    for (;;) {
      const sentMs = Date.now();
      const answer = await post(`/v1/machines/${action}`, { api_key: license.apiKey, fingerprint });
      const request = { machine, sentMs, answeredMs: Date.now() + 1 };
      if (UNKNOWN.includes(answer?.status)) {
        if (action === "activate") cut.push(request);
        if (isStopped) return undefined;
        await Bun.sleep(random.between(20, 200));
        continue;
      }
      const { status, body } = answer ?? {};
      if (status === 200) {
        confirmed.push(request);
        ids.set(machine, (ids.get(machine) ?? new Set()).add(body?.machine_id ?? "none"));
      } else if (status === 409 && action === "activate") refusals.push(request);
      else if (status === 404 && action !== "activate") lost.push(request);
      else unexpected.push(`${action}: ${status} ${body?.code}`);
      return status;
    }
  }

  async function client(index: number) {
    let fingerprint = `machine-${index}`;
    let tries = 0;
    await Bun.sleep(random.between(0, 2_000));
    while (!isStopped) {
      if ((await send("activate", fingerprint)) !== 200) {
        await Bun.sleep(random.between(300, 2_500));
        // One that waits is refused from memory, by another clock than that of this database.
        fingerprint = `machine-${index}-${++tries}`;
        continue;
      }
      let status: number | undefined = 200;
      for (let beats = random.between(0, 6); beats > 0 && status === 200 && !isStopped; beats--) {
        // At times later than the seat lasts.
        await Bun.sleep(random.between(300, random.next() < 0.1 ? 7_000 : 2_000));
        status = await send("heartbeat", fingerprint);
      }
      // Most clients release their machine; the others are closed without a word.
      if (status === 200 && random.next() < 0.6) await send("release", fingerprint);
      else await Bun.sleep(random.between(1_000, 8_000));
    }
  }

  /** The upkeep, much more often than the services run it. */
  async function upkeep() {
    while (!isStopped) {
      await noteEnds({ database, isStopping: () => isStopped }).catch(() => {});
      await Bun.sleep(random.between(50, 500));
    }
  }

  const running = [...Array.from({ length: CLIENTS }, (_, index) => client(index)), upkeep()];
  return {
    /** Ends the clients, expects that the history keeps the rule, and returns its figures. */
    async stop() {
      isStopped = true;
      await Promise.all(running);
      const journal = await readJournal(database);
      const holdings = toHoldings(journal);
      const toShown = await readDatabaseClock(database);
      const shown = (requests: readonly OfMachine[]) =>
        requests.map(({ machine, sentMs, answeredMs }) => ({
          machine,
          sentMs: toShown(sentMs),
          answeredMs: toShown(answeredMs),
        }));
      const occupancy = new Occupancy(holdings);
      const first = (found: readonly unknown[]) => found.slice(0, 3);
      expect(first(occupancy.above(PLACES))).toEqual([]);
      expect(first(wrongRefusals(occupancy, { refusals: shown(refusals), limit: PLACES }))).toEqual([]);
      expect(first(unfounded(holdings, shown(confirmed)))).toEqual([]);
      expect(first(wronglyLost(holdings, shown([...lost, ...refusals])))).toEqual([]);
      expect(first(unexpected)).toEqual([]);
      // Every answer for a fingerprint, before and after any kill, named the same machine.
      expect(first([...ids.values()].filter((names) => names.size > 1))).toEqual([]);
      const committed = shown(cut).filter(({ machine, sentMs, answeredMs }) =>
        holdings.some(
          (held) => held.machine === machine && held.fromMs >= sentMs && held.fromMs <= answeredMs,
        ),
      );
      const endedAlone = holdings.filter(({ machine, toMs }) =>
        journal.some((line) => line.machine === machine && line.untilMs === toMs),
      );
      const figures = {
        confirmed: confirmed.length,
        refused: refusals.length,
        lost: lost.length,
        cut: cut.length,
        committedAndCut: committed.length,
        holdings: holdings.length,
        endedByThemselves: endedAlone.length,
        most: occupancy.mostDuring({
          sentMs: Number.NEGATIVE_INFINITY,
          answeredMs: Number.POSITIVE_INFINITY,
        }),
      };
      expect(figures.most).toBe(PLACES);
      expect(figures.refused).toBeGreaterThan(CLIENTS);
      expect(figures.endedByThemselves).toBeGreaterThan(PLACES / 2);
      expect(figures.holdings - figures.endedByThemselves).toBeGreaterThan(PLACES / 2);
      return figures;
    },
  };
}

async function readJournal(database: Database): Promise<JournalLine[]> {
  return await database.query<JournalLine>(
    (sql) => sql`
      select encode(machine, 'hex') as machine, extract(epoch from at)::float8 * 1000 as "atMs",
             extract(epoch from until)::float8 * 1000 as "untilMs"
        from test_clock.journal order by line`,
  );
}
