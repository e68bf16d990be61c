/**
 * Processes of two versions serve side by side behind HAProxy, with the configuration and the pause of the guide's page
 * `replicas`: under load this version is replaced, one process after the other, by a version with one more expanding
 * migration, and back. No request fails, and no event is lost or stored twice.
 */
import { expect, test } from "bun:test";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { migrations } from "../../src/database/mod.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { haproxy, shownPauseSeconds, startBalancer } from "../support/haproxy.ts";
import { issue } from "../support/issue.ts";
import { SOURCE } from "../support/service_process.ts";
import { useForAll } from "../support/use.ts";
import { useFolder } from "../support/use_folder.ts";
import { createInstallation, type Replica } from "./installation.ts";

// Runs alone: requests have a second to end before their process does.

const CHECKOUT = join(import.meta.dir, "../..");
const CLIENTS = 8;
/** With three, HAProxy would find one also without a pause. */
const REPLICAS = 2;
/** The grace of the program: the tests' own is shorter. */
const SETTINGS = { CLAVIGER_STOP_GRACE: "1" };
const REQUEST_LIMIT_MS = 10_000;

if (haproxy === null)
  console.warn("No haproxy on this machine: an upgrade of replicas behind it is not tried");

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

/** A client for each key asks HAProxy without a pause. HAProxy shares the keys among the processes. */
function startClients(url: string, apiKeys: readonly string[]) {
  const answers = new Map<string, number>();
  let sent = 0;
  let isStopped = false;
  const client = async (apiKey: string) => {
    for (let turn = 0; !isStopped; turn++) {
      const path = turn % 3 === 0 ? "/v1/auth/validate" : "/v1/analytics/log";
      const answer = await fetch(`${url}${path}`, {
        method: "POST",
        body: JSON.stringify({ api_key: apiKey, event_type: "error" }),
        signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
      }).catch(() => undefined);
      const name = `${path} ${answer?.status ?? "no answer"}`;
      answers.set(name, (answers.get(name) ?? 0) + 1);
      await answer?.arrayBuffer();
      if (path === "/v1/analytics/log") sent++;
      await Bun.sleep(2);
    }
  };
  const running = apiKeys.map(client);
  return {
    async stop() {
      isStopped = true;
      await Promise.all(running);
      return { answers: Object.fromEntries(answers), sent };
    },
  };
}

test.skipIf(haproxy === null)(
  "Two processes behind HAProxy are upgraded one after the other, and back, without a failed request",
  async () => {
    const next = makeNextVersion();
    const apiKeys: string[] = [];
    for (let i = 0; i < CLIENTS; i++) apiKeys.push((await issue(installation.database)).apiKey);
    const ports: number[] = [];
    for (let i = 0; i < REPLICAS; i++) ports.push(await findFreePort());
    const serve = (index: number, program = SOURCE) =>
      installation.serve(SETTINGS, { program, port: ports[index] ?? 0 });
    const replicas: Replica[] = [];
    for (let index = 0; index < REPLICAS; index++) replicas.push(await serve(index));
    await using ends = new AsyncDisposableStack();
    const balancer = await startBalancer(folder, ports);
    ends.defer(balancer.close);
    const pauseMs = shownPauseSeconds() * 1_000;
    await Bun.sleep(pauseMs);
    const clients = startClients(balancer.url, apiKeys);
    ends.defer(async () => void (await clients.stop()));
    for (const program of [next, SOURCE]) {
      for (const [index, old] of replicas.entries()) {
        // As `systemctl restart` does: it ends when the new process serves.
        await old.kill("SIGTERM");
        replicas[index] = await serve(index, program);
        await Bun.sleep(pauseMs);
      }
    }
    const { answers, sent } = await clients.stop();

    console.log(`Rolling upgrade: ${JSON.stringify(answers)}`);
    expect(Object.keys(answers).sort()).toEqual(["/v1/analytics/log 202", "/v1/auth/validate 200"]);
    const [{ events } = { events: 0 }] = await installation.database.query<{ events: number }>(
      (sql) => sql`select count(*)::integer as events from events`,
    );
    expect(events).toBe(sent);
  },
);
