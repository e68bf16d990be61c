/**
 * Processes of two versions serve side by side: under load this version is replaced, one process after the other, by a
 * version with one more expanding migration, and back. No request fails, and no event is lost or stored twice.
 */
import { expect, test } from "bun:test";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { migrations } from "../../src/database/mod.ts";
import { issue } from "../support/issue.ts";
import { SOURCE } from "../support/service_process.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { createInstallation, type Replica } from "./installation.ts";

// Runs alone: requests have a second to end before their process does.

const CHECKOUT = join(import.meta.dir, "../..");
const CLIENTS = 8;
const HEALTH_MS = 100;
/** Longer than the pause of the checks of health. */
const SETTINGS = { CLAVIGER_STOP_GRACE: "1" };

const installation = useForAll(createInstallation);
const folder = useFolder();

/** Makes a version whose newest migration lets this version serve beside it. Returns the program. */
function makeNextVersion(): string[] {
  const next = join(folder, "next");
  mkdirSync(next);
  for (const name of ["src", "sql"]) cpSync(join(CHECKOUT, name), join(next, name), { recursive: true });
  symlinkSync(join(CHECKOUT, "node_modules"), join(next, "node_modules"));
  const packageJson = JSON.parse(readFileSync(join(CHECKOUT, "package.json"), "utf8"));
  writeFileSync(join(next, "package.json"), JSON.stringify({ ...packageJson, version: "99.0.0" }));
  const newest = migrations.at(-1)?.number ?? 0;
  writeFileSync(
    join(next, "sql", `${String(newest + 1).padStart(4, "0")}_next.sql`),
    `-- runs with ${newest}\nalter table keys add column added_by_next text;\n`,
  );
  return [process.execPath, join(next, "src/main.ts")];
}

/** Clients that ask only processes whose health is good, as a balancer does. */
function startClients(apiKey: string) {
  const serving = new Set<Replica>();
  const answers = new Map<string, number>();
  let sent = 0;
  let isStopped = false;
  const check = async (replica: Replica) => {
    while (!isStopped) {
      const health = await replica.get("/api/health").catch(() => undefined);
      if (health?.status === 200) serving.add(replica);
      else if (serving.delete(replica)) return;
      await Bun.sleep(HEALTH_MS);
    }
  };
  const client = async (number: number) => {
    for (let turn = number; !isStopped; turn++) {
      const replica = [...serving][turn % serving.size];
      if (replica === undefined) {
        answers.set("no process", 1);
        await Bun.sleep(HEALTH_MS);
        continue;
      }
      const event = { api_key: apiKey, event_type: "error" };
      const path = turn % 3 === 0 ? "/v1/auth/validate" : "/v1/analytics/log";
      const answer = await replica.post(path, event).catch(() => undefined);
      const name = `${path} ${answer?.status ?? "no answer"}`;
      answers.set(name, (answers.get(name) ?? 0) + 1);
      if (path === "/v1/analytics/log") sent++;
      await Bun.sleep(2);
    }
  };
  const running: Promise<void>[] = [];
  return {
    add: async (replica: Replica) => {
      running.push(check(replica));
      await until(() => serving.has(replica));
    },
    start: () => running.push(...Array.from({ length: CLIENTS }, (_, number) => client(number))),
    async stop() {
      isStopped = true;
      await Promise.all(running);
      return { answers: Object.fromEntries(answers), sent };
    },
  };
}

test("Three processes are upgraded one after the other, and back, without a failed request", async () => {
  const next = makeNextVersion();
  const { apiKey } = await issue(installation.database);
  const clients = startClients(apiKey);
  let replicas: Replica[] = [];
  for (let i = 0; i < 3; i++) replicas.push(await installation.serve(SETTINGS));
  for (const replica of replicas) await clients.add(replica);
  clients.start();
  for (const program of [next, SOURCE]) {
    const replaced: Replica[] = [];
    for (const old of replicas) {
      await old.kill("SIGTERM");
      const replica = await installation.serve(SETTINGS, program);
      await clients.add(replica);
      replaced.push(replica);
    }
    replicas = replaced;
  }
  const { answers, sent } = await clients.stop();

  console.log(`Rolling upgrade: ${JSON.stringify(answers)}`);
  expect(Object.keys(answers).sort()).toEqual(["/v1/analytics/log 202", "/v1/auth/validate 200"]);
  const [{ events } = { events: 0 }] = await installation.database.query<{ events: number }>(
    (sql) => sql`select count(*)::integer as events from events`,
  );
  expect(events).toBe(sent);
});
