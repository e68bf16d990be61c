/**
 * Sends generated requests to a service over many connections, and checks every answer and the changes in the
 * database.
 *
 * The requests come in batches. In each batch, several senders draw requests from their own seeds. After it, with
 * no request in flight, the tables are compared with the expected rows and the log is searched for secrets. If a
 * batch changed a table and no success explains the change, its requests are sent again one by one until a single
 * request causes the same difference. fast-check makes a failing request as small as possible, and it is shown.
 */
import fc from "fast-check";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import { searchProcesses, searchTables } from "../secret_leaks/places.ts";
import { createSecretSearch } from "../secret_leaks/secret_search.ts";
import { createTestClock } from "../support/clock.ts";
import { type HostingService, startHostingService } from "../support/hosted.ts";
import type { TestServiceOptions } from "../support/service.ts";
import { createActors, type Secret } from "./actors.ts";
import { createAnswerCheck } from "./answer_check.ts";
import { checkExpectedAnswer } from "./expected_answer.ts";
import { createExpectedRows, isRevocation } from "./expected_rows.ts";
import { describeRequest, type GeneratedRequest, generatedRequest, renderRequest } from "./requests.ts";
import { createWire, type Wire, type WireOutcome } from "./wire.ts";

export interface RunOptions {
  readonly requests: number;
  readonly seed: number;
  /** With the seed, the path of a failure in fast-check: only that request is sent, and made smaller. */
  readonly path?: string | undefined;
  readonly connections?: number;
  readonly batch?: number;
  readonly service?: TestServiceOptions | undefined;
  /** Secrets to search for besides those of the actors. */
  readonly secrets?: () => readonly Secret[];
  readonly onBatch?: (progress: RunResult) => void;
}

export interface RunResult {
  readonly seed: number;
  readonly requests: number;
  readonly seconds: number;
  /** The number of answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly codes: Readonly<Record<string, number>>;
  readonly templates: Readonly<Record<string, number>>;
  /** The number of requests that the runtime refused before our code, by status or "closed". */
  readonly refusedByRuntime: Readonly<Record<string, number>>;
  readonly slowestMs: number;
  readonly events: number;
  readonly revocations: number;
  readonly secrets: {
    readonly known: number;
    readonly logLines: number;
    readonly rows: number;
    readonly processes: number;
  };
  /** The first failure, with its seed and the smallest request that causes it. */
  readonly failure: string | undefined;
}

/** Early in a month, so that no run reaches the next month's quota. */
export const RUN_BEGIN = "2026-11-09T00:00:00Z";
const CONNECTIONS = 24;
const BATCH = 2_400;
/** Longer than the promised 5 s for every answer, because other work may slow the machine down. */
const DEADLINE_MS = 10_000;
/** After this time the windows are empty again, and no link has expired. */
const BETWEEN_BATCHES_MS = 61_000;

export async function sendGenerated(options: RunOptions): Promise<RunResult> {
  const proxies = parseTrustedProxies("127.0.0.1");
  if (!proxies.ok) throw new Error(proxies.error);
  const service = await startHostingService({
    limits: "default",
    clock: createTestClock(RUN_BEGIN),
    ...options.service,
    config: {
      trustedProxies: proxies.proxies,
      logRequests: "all",
      offlineDays: { free: 1, research: 7, commercial: 14, enterprise: 0 },
      ...options.service?.config,
    },
  });
  try {
    return await sendTo(service, options);
  } finally {
    await service.close();
  }
}

async function sendTo(service: HostingService, options: RunOptions): Promise<RunResult> {
  const { seed, batch = BATCH, path } = options;
  const connections = path === undefined ? (options.connections ?? CONNECTIONS) : 1;
  const actors = await createActors(service);
  const expectedRows = createExpectedRows(service.database, { actors, clock: service.clock });
  const document = await (await fetch(`${service.url}/openapi.json`)).text();
  const files = new Map(actors.models.map(({ bytes }) => [etagOf(bytes), bytes]));
  const check = createAnswerCheck({
    document,
    fileOf: (etag) => files.get(etag),
    nowMs: () => service.clock.now().getTime(),
    isTokenSet: () => actors.isTokenSet,
  });
  const wires = Array.from({ length: connections }, () =>
    createWire(service.url, { deadlineMs: DEADLINE_MS }),
  );
  const search = createSecretSearch();
  let learned = 0;
  const learnSecrets = () => {
    search.add([...actors.secrets.slice(learned), ...(options.secrets?.() ?? [])]);
    learned = actors.secrets.length;
  };

  const beganMs = performance.now();
  const statuses: Record<string, number> = {};
  const codes: Record<string, number> = {};
  const templates: Record<string, number> = {};
  const refusedByRuntime: Record<string, number> = {};
  const searched = { logLines: 0, rows: 0, processes: 0 };
  let sent = 0;
  let slowestMs = 0;
  let events = 0;
  let revocations = 0;
  let failure: string | undefined;

  const result = (): RunResult => ({
    seed,
    requests: sent,
    seconds: Math.round((performance.now() - beganMs) / 100) / 10,
    statuses,
    codes,
    templates,
    refusedByRuntime,
    slowestMs: Math.round(slowestMs),
    events,
    revocations,
    secrets: { known: search.count, ...searched },
    failure,
  });

  /** Sends one request and checks its answer; throws an error that says what is wrong. */
  async function sendOne(wire: Wire, request: GeneratedRequest): Promise<WireOutcome> {
    const rendered = renderRequest(request, service.url, actors);
    const sentMs = performance.now();
    const outcome = await wire.send(rendered.bytes, {
      isBodiless: rendered.method === "HEAD",
      isLast: rendered.isLast,
    });
    slowestMs = Math.max(slowestMs, performance.now() - sentMs);
    sent++;
    templates[request.template] = (templates[request.template] ?? 0) + 1;
    if (outcome.kind === "hung") throw new Error(`no answer within ${outcome.afterMs} ms`);
    if (outcome.kind === "malformed") throw new Error(`the answer is malformed: ${outcome.problem}`);
    if (outcome.kind === "closed" || isOfRuntime(outcome)) {
      const how = outcome.kind === "closed" ? "closed" : String(outcome.status);
      if (!rendered.mayRuntimeRefuse)
        throw new Error(`the runtime refuses a request that it should pass on: ${how}`);
      refusedByRuntime[how] = (refusedByRuntime[how] ?? 0) + 1;
      return outcome;
    }
    const { status } = outcome;
    statuses[status] = (statuses[status] ?? 0) + 1;
    const code = status >= 400 ? /"code":"(\w+)"/.exec(outcome.body.toString("latin1"))?.[1] : undefined;
    if (code !== undefined) codes[code] = (codes[code] ?? 0) + 1;
    if (status === 202) events++;
    if (isRevocation(status, outcome.body)) revocations++;
    const problem = check(rendered, outcome) ?? checkExpectedAnswer(request, { status, code });
    if (problem !== undefined) {
      const text = outcome.body.toString("latin1").slice(0, 500);
      throw new Error(`${problem}\n  answer:  ${status} ${JSON.stringify(text)}`);
    }
    expectedRows.enter(rendered, outcome);
    return outcome;
  }

  const senderSeed = (batchIndex: number, sender: number) =>
    (Math.imul(seed, 1_000_003) + batchIndex * 1_009 + sender) | 0;
  const toFailure = (details: fc.RunDetails<[GeneratedRequest]>): string | undefined => {
    const request = details.counterexample?.[0];
    if (!details.failed || request === undefined) return undefined;
    const { errorInstance } = details;
    const why = errorInstance instanceof Error ? errorInstance.message : String(errorInstance);
    return [
      why,
      describeRequest(request, service.url),
      `  replay:  bun test/hostile_input/long_run.ts --replay ${details.seed}/${details.counterexamplePath}`,
    ].join("\n");
  };

  /** Draws `count` requests from a seed and sends them one after the other. */
  async function run(
    each: (request: GeneratedRequest) => Promise<void>,
    drawn: fc.Parameters<[GeneratedRequest]>,
  ) {
    const details = await fc.check(fc.asyncProperty(generatedRequest, each), { ...drawn, maxSkipsPerRun: 0 });
    return toFailure(details);
  }

  /** Sends the requests of a batch again, one by one, and compares the tables after each. */
  async function findCulprit(batchIndex: number, counts: readonly number[]): Promise<string | undefined> {
    const [wire] = wires;
    if (wire === undefined) return undefined;
    await service.advance(BETWEEN_BATCHES_MS);
    await actors.replaceDisposable();
    const alone = async (request: GeneratedRequest) => {
      await expectedRows.begin();
      await sendOne(wire, request);
      const difference = await expectedRows.compare();
      if (difference !== undefined) throw new Error(`alone: ${difference}`);
    };
    for (const [sender, numRuns] of counts.entries()) {
      const found = await run(alone, { seed: senderSeed(batchIndex, sender), numRuns });
      if (found !== undefined) return found;
    }
    return undefined;
  }

  async function searchEverywhere(): Promise<string[]> {
    learnSecrets();
    const tables = await searchTables(service.database, search);
    const processes = searchProcesses(search);
    searched.rows = tables.searched;
    searched.processes = processes.searched;
    return [...tables.found, ...processes.found];
  }

  try {
    for (let index = 0; sent < options.requests && failure === undefined; index++) {
      if (index > 0) {
        await service.advance(BETWEEN_BATCHES_MS);
        await actors.renew();
        await service.service.directory.beat();
      }
      await expectedRows.begin();
      const left = Math.min(batch, options.requests - sent);
      const counts = wires.map((_, sender) => Math.floor((left + sender) / wires.length));
      const failures = await Promise.all(
        wires.map((wire, sender) =>
          run(
            async (request) => void (await sendOne(wire, request)),
            path === undefined
              ? { seed: senderSeed(index, sender), numRuns: counts[sender] ?? 0 }
              : { seed, path, numRuns: 1 },
          ),
        ),
      );
      failure = failures.find((each) => each !== undefined);
      if (failure !== undefined) break;
      const difference = await expectedRows.compare();
      if (difference !== undefined) {
        const culprit = path === undefined ? await findCulprit(index, counts) : undefined;
        failure = `${difference} (batch ${index})\n${culprit ?? "  no single request causes that"}`;
        break;
      }
      learnSecrets();
      searched.logLines += service.logLines.length;
      const leaks = search.find(service.logLines.join(""));
      service.logLines.length = 0;
      if (leaks.length > 0) failure = `the log contains ${leaks.slice(0, 3).join("; ")} (batch ${index})`;
      options.onBatch?.(result());
      if (path !== undefined) break;
    }
    const seconds = result().seconds;
    const leaks = await searchEverywhere();
    if (leaks.length > 0) failure ??= `secrets were found: ${leaks.slice(0, 5).join("; ")}`;
    return { ...result(), seconds };
  } finally {
    for (const wire of wires) wire.close();
  }
}

/** Returns whether the runtime refused a request before our code: the connection closes, and no request has an identifier. */
function isOfRuntime(outcome: WireOutcome): boolean {
  return (
    outcome.kind === "answer" &&
    outcome.headers.get("connection") === "close" &&
    !outcome.headers.has("x-request-id")
  );
}

function etagOf(bytes: Uint8Array): string {
  return `"${new Bun.CryptoHasher("sha256").update(bytes).digest("hex")}"`;
}
