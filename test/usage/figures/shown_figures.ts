/** Reads the numbers that a service shows to operators: pages as tables, the API, and the metrics of both services. */
import { expect } from "bun:test";
import { isRefusal } from "../../../src/base/refusal.ts";
import { issueToken } from "../../../src/operators/mod.ts";
import { type CommandsOn, commandsOn } from "../../admin/commands_on.ts";
import { createConsoleClient } from "../../admin/console_client.ts";
import { parseExposition } from "../../support/exposition.ts";
import { ACTOR, BRAND } from "../../support/issue.ts";
import { readTables, type Tables } from "../../support/page_tables.ts";
import { countBySql, type SqlCounts } from "./count_by_sql.ts";
import type { SimulatedDays } from "./simulated_days.ts";

/** The two sides of a comparison: the shown numbers, and the counts of SQL. */
export interface Shown {
  readonly days: SimulatedDays;
  readonly counts: SqlCounts;
  readonly commands: CommandsOn;
  /** Reads a page of the console as tables. */
  readPage(path: string): Promise<Tables>;
  // biome-ignore lint/suspicious/noExplicitAny: tests read documents of every shape.
  callApi(path: string): Promise<any>;
  /** Reads the samples of each service by their names. */
  readMetrics(): Promise<Map<string, number>[]>;
}

export async function createShown(days: SimulatedDays): Promise<Shown> {
  const { on, clock, services } = days;
  const url = services[0].service.admin?.url ?? "";
  const client = createConsoleClient({ url, database: on.database, clock });
  let cookie = "";
  const scopes = ["usage:read", "status:read"] as const;
  const request = { name: "proof", scopes, restriction: {} };
  const issued = await issueToken(on.database, request, { brand: BRAND, actor: ACTOR, now: clock.now() });
  if (isRefusal(issued)) throw new Error(issued.sentence);
  return {
    days,
    counts: countBySql(on.database),
    commands: await commandsOn(on, clock),
    async readPage(path) {
      let answer = await client.send(path, { cookie });
      // A session ends after half an hour without activity.
      if (answer.status === 303) ({ cookie } = await client.logIn("viewer"));
      if (answer.status === 303) answer = await client.send(path, { cookie });
      expect({ path, status: answer.status }).toEqual({ path, status: 200 });
      return readTables(answer.text);
    },
    async callApi(path) {
      const headers = { authorization: `Bearer ${issued.token}` };
      const answer = await fetch(`${url}/admin/v1${path}`, { headers });
      expect({ path, status: answer.status }).toEqual({ path, status: 200 });
      return await answer.json();
    },
    readMetrics: () => Promise.all(services.map(({ service }) => readSamples(service.metrics))),
  };
}

async function readSamples(metrics: SimulatedDays["services"][0]["service"]["metrics"]) {
  const response = await fetch(`http://${metrics?.host}:${metrics?.port}/metrics`);
  const families = parseExposition(await response.text());
  return new Map([...families.values()].flatMap(({ samples }) => [...samples]));
}
