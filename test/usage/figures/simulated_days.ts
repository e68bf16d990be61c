/**
 * Days of load on two services that share a database, and a clock that the test moves. The answers are counted as the
 * clients see them.
 */
import { changeLicense, createLicenseChanges, TIERS } from "../../../src/licensing/mod.ts";
import { createTestClock } from "../../support/clock.ts";
import { createTestDatabase } from "../../support/database.ts";
import { ACTOR } from "../../support/issue.ts";
import { NO_LIMITS, startTestService, type TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import {
  type Customer,
  checked,
  importCustomers,
  makeCustomers,
  type Random,
} from "./simulated_customers.ts";
import { type Client, makeRequest, reasonOf } from "./simulated_requests.ts";

/** How many requests were answered in one way in an hour. */
export interface Answers {
  /** The beginning of the hour. */
  readonly at: Date;
  readonly endpoint: string;
  readonly code: string;
  readonly reason: string;
  readonly count: number;
}

const LOOPBACK = { host: "127.0.0.1", port: 0 } as const;
const CUSTOMERS = 90;
const HOUR_MS = 3_600_000;
/** Requests that are on their way at a time, for each service. */
const AT_ONCE = 24;

export type SimulatedDays = Awaited<ReturnType<typeof simulateDays>>;

/**
 * Starts both services at an instant, with customers of every tier, mode and state. The table `proof.tiers` gets the
 * tiers of all licenses at the end of each day.
 */
export async function simulateDays(at: string, random: Random) {
  const on = await createTestDatabase();
  const clock = createTestClock(at);
  const config = { limits: { ...NO_LIMITS, refresh: 1 }, adminListen: LOOPBACK, metricsListen: LOOPBACK };
  const start = () => startTestService({ on, clock, config });
  const services = [await start(), await start()] as const;
  const run = (text: string) => on.database.query((sql) => sql.unsafe(text));
  await run("create schema proof");
  await run("create table proof.tiers (day date, license_id uuid, tier text)");
  const customers = await makeCustomers(on.database, { customers: CUSTOMERS, now: clock.now(), random });
  const working = customers.filter(({ flaw }) => flaw === "");
  const clients = createClients(services, { customers, clock, random });
  const beat = () => Promise.all(services.map(({ service }) => service.directory.beat()));

  async function advance(ms: number): Promise<void> {
    clock.advance(ms);
    await beat();
  }

  /** Waits until both services have added their answers. */
  async function settleActivity(): Promise<void> {
    const sent = clients.answers().reduce((sum, { count }) => sum + count, 0);
    const isAdded = async () => {
      const [row] = await on.database.query<{ count: number }>(
        (sql) => sql`select coalesce(sum(count), 0)::bigint as count from activity_days`,
      );
      return row?.count === sent;
    };
    await until(isAdded, { limitMs: 60_000 });
  }

  return {
    ...{ on, clock, services, advance, settleActivity, ...clients },

    /** Moves the clock to another hour, and waits until both services have added their earlier answers. */
    async moveTo(to: string): Promise<void> {
      const day = clock.now().toISOString().slice(0, 10);
      if (!to.startsWith(day)) await run(`insert into proof.tiers select '${day}', id, tier from licenses`);
      // These answers show that both services have looked at the clock.
      await clients.load(1);
      await advance(Date.parse(to) - clock.nowMs());
      await settleActivity();
    },

    /** Gives some licenses another tier. */
    async changeTiers(licenses: number): Promise<void> {
      for (let n = 0; n < licenses; n++) {
        const { licenseUuid } = working[random(working.length)] as Customer;
        const by = { change: { tier: TIERS[random(4)] ?? "free" }, actor: ACTOR, now: clock.now() };
        checked(await changeLicense(createLicenseChanges(on.database), { licenseUuid }, by));
      }
      await beat();
    },

    /** Imports keys with use of this month. */
    importUse: (keys: number) => importCustomers(on.address, { keys, now: clock.now(), random }),

    async close() {
      for (const service of services) await service.close();
      await on.close();
    },
  };
}

interface ClientsOptions extends Pick<TestService, "clock"> {
  readonly customers: readonly Customer[];
  readonly random: Random;
}

/** Creates clients that send requests of all kinds, and count the answers. */
function createClients(services: readonly TestService[], { customers, clock, random }: ClientsOptions) {
  const answered = new Map<string, Answers>();

  async function send(url: string): Promise<void> {
    // The first ones are used most, and the last third never.
    const customer = customers[random(1 + random((customers.length * 2) / 3))] as Customer;
    const unknown: Client = { apiKey: `svc_live_${String(random(9)).repeat(48)}`, flaw: "unknown" };
    const client = random(12) === 0 ? unknown : customer;
    const { endpoint, path, init } = makeRequest(client, random);
    const response = await fetch(url + path, init);
    const body = await response.json();
    // Only the answer of an unhealthy service has no code.
    const code = response.ok ? "OK" : ((body as { code?: string }).code ?? "UNHEALTHY");
    const nowMs = clock.nowMs();
    const at = new Date(nowMs - (nowMs % HOUR_MS));
    const answer = { at, endpoint, code, reason: reasonOf(code, client), count: 1 };
    const id = `${at.getTime()} ${endpoint} ${code} ${answer.reason}`;
    answered.set(id, { ...answer, count: 1 + (answered.get(id)?.count ?? 0) });
  }

  return {
    answers: () => [...answered.values()],

    /** Sends so many requests to each service. */
    async load(requests: number): Promise<void> {
      const sendMany = async ({ url }: TestService) => {
        let left = requests;
        const sendRest = async () => {
          while (left-- > 0) await send(url);
        };
        await Promise.all(Array.from({ length: AT_ONCE }, sendRest));
      };
      await Promise.all(services.map(sendMany));
    },
  };
}
