/**
 * The load: clients that validate, list models and send events. Each has its own connection and waits for
 * each answer. A pause leaves no event unsettled: every event with an
 * `Idempotency-Key` is sent again until it is acknowledged.
 */

import type { Random } from "../support/random.ts";
import { type Client, createClient, type Outcome, type Request } from "./http_client.ts";
import { ANSWER_LIMIT_MS, type Ledger } from "./ledger.ts";

export interface LoadKeys {
  /** Keys whose events carry no `Idempotency-Key`: an event that was answered 503 may have been counted. */
  readonly plain: readonly string[];
  /**
   * Keys whose events carry an `Idempotency-Key` and are sent until they are acknowledged: their counts are
   * exact.
   */
  readonly claimed: readonly string[];
  /** A key with a small monthly limit. */
  readonly limited: string;
}

export interface LoadOptions {
  readonly keys: LoadKeys;
  readonly ledger: Ledger;
  readonly random: Random;
  /** Returns the service's present port; undefined while the service is known to be down. */
  readonly port: () => number | undefined;
  /** Goes up by one when the service may go down and when it is up again: odd while it may be down. */
  readonly downs: () => number;
}

export interface Load {
  /** Lets every client go on. */
  resume(): void;
  /** Resolves when every client has its answer and no request is open. */
  pause(): Promise<void>;
  /** Sets the size of the events from now on: large ones fill a disk. */
  setMetadataBytes(bytes: number): void;
  /** From this moment on, a validate that begins must fail, because the pulse is stopped. */
  setUntrustedFrom(ms: number | undefined): void;
  /** Sends one request outside the load; judges it like the others. */
  ask(request: Request, expected: readonly number[]): Promise<Outcome>;
  /** How many connections the clients keep open. */
  connections(): number;
  /** Sends one event without an `Idempotency-Key`, outside the load, and counts it like the others. */
  probeEvent(): Promise<Outcome>;
  end(): Promise<void>;
}

/**
 * Between two requests of a client. This gives about 800 requests a second and leaves the machine some idle
 * time.
 */
const PAUSE_MS = 15;
/** After a 503: sooner than `Retry-After` says, but without a flood of requests. */
const RETRY_MS = 40;
const MODEL_LOAD_SHARE = 0.1;
const UNKNOWN_KEY_SHARE = 0.1;
/** An event with an `Idempotency-Key` must be settled within this time, however long the database was away. */
const SETTLE_LIMIT_MS = 90_000;

/**
 * Creates the load, which is paused at first.
 *
 * One long function, because its functions share the clients and the state of the run.
 */
export function startLoad({ keys, ledger, random, port, downs }: LoadOptions): Load {
  let isPaused = true;
  let isEnded = false;
  let resumed = Promise.withResolvers<void>();
  let metadataBytes = 0;
  let untrustedFromMs: number | undefined;
  let claims = 0;
  const idle = new Set<Promise<void>>();
  const clients: Client[] = [];
  const nameOfRun = crypto.randomUUID();

  const newClient = () => {
    const client = createClient({ port, limitMs: ANSWER_LIMIT_MS });
    clients.push(client);
    return client;
  };

  async function ask(client: Client, request: Request, expected: readonly number[]): Promise<Outcome> {
    const downsBefore = downs();
    const outcome = await client.ask(request);
    const mayBeLost = downsBefore % 2 === 1 || downs() !== downsBefore;
    ledger.judge(`${request.method} ${request.path.split("?")[0]}`, outcome, { expected, mayBeLost });
    return outcome;
  }

  async function validate(client: Client): Promise<void> {
    const isKnown = random.next() >= UNKNOWN_KEY_SHARE;
    const key = isKnown ? random.pick([...keys.plain, ...keys.claimed]) : unknownKey(random);
    const mustFail = untrustedFromMs !== undefined && performance.now() >= untrustedFromMs;
    const request = { method: "POST", path: "/v1/auth/validate", body: { api_key: key } } as const;
    const outcome = await ask(client, request, [isKnown ? 200 : 401, 503]);
    // Checked again: if the pulse has worked again meanwhile, a success is allowed.
    if (mustFail && untrustedFromMs !== undefined && outcome.kind === "answer" && outcome.status !== 503) {
      ledger.violate("Cached keys are not trusted without a pulse", { status: outcome.status });
    }
    await rest(outcome);
  }

  async function list(client: Client): Promise<void> {
    const path = `/v1/models/list?api_key=${random.pick(keys.plain)}`;
    await rest(await ask(client, { method: "GET", path }, [200, 503]));
  }

  function eventRequest(apiKey: string, claim: string | undefined, usesQuota: boolean): Request {
    return {
      method: "POST",
      path: "/v1/analytics/log",
      body: {
        api_key: apiKey,
        event_type: usesQuota ? "inference" : "model_load",
        duration_ms: 12.5,
        ...(metadataBytes > 0 && { metadata: { filler: "x".repeat(metadataBytes) } }),
      },
      ...(claim !== undefined && { headers: { "Idempotency-Key": claim } }),
    };
  }

  async function sendPlain(client: Client): Promise<void> {
    const isLimited = random.next() < 0.05;
    const apiKey = isLimited ? keys.limited : random.pick(keys.plain);
    const usesQuota = random.next() >= MODEL_LOAD_SHARE;
    const expected = isLimited ? [202, 429, 503] : [202, 503];
    await rest(await send(client, { apiKey, usesQuota, expected }));
  }

  async function send(client: Client, { apiKey, usesQuota, expected }: PlainEvent): Promise<Outcome> {
    const outcome = await ask(client, eventRequest(apiKey, undefined, usesQuota), expected);
    if (isAcknowledged(outcome))
      ledger.noteAcknowledged(apiKey, String(outcome.body.event_id), { usesQuota });
    else if (isUnknown(outcome)) ledger.noteUnknown(apiKey, { usesQuota });
    return outcome;
  }

  async function sendClaimed(client: Client): Promise<void> {
    const apiKey = random.pick(keys.claimed);
    const usesQuota = random.next() >= MODEL_LOAD_SHARE;
    const request = eventRequest(apiKey, `${nameOfRun} ${++claims}`, usesQuota);
    const beganMs = performance.now();
    while (!isEnded) {
      const outcome = await ask(client, request, [202, 503]);
      if (isAcknowledged(outcome)) {
        ledger.noteAcknowledged(apiKey, String(outcome.body.event_id), { usesQuota });
        return await rest(outcome);
      }
      if (performance.now() - beganMs > SETTLE_LIMIT_MS) {
        ledger.violate("An event with an Idempotency-Key is settled by sending it again", {
          request,
          outcome,
        });
        return;
      }
      await rest(outcome);
    }
  }

  async function run(act: (client: Client) => Promise<void>): Promise<void> {
    const client = newClient();
    while (!isEnded) {
      if (isPaused) {
        await resumed.promise;
        continue;
      }
      const acting = act(client);
      idle.add(acting);
      await acting;
      idle.delete(acting);
    }
  }

  const running = [
    ...Array.from({ length: 4 }, () => run(validate)),
    ...Array.from({ length: 6 }, () => run(sendPlain)),
    ...Array.from({ length: 4 }, () => run(sendClaimed)),
    run(list),
  ];
  const outside = newClient();
  const prober = newClient();
  let asking: Promise<unknown> = Promise.resolve();

  return {
    resume() {
      isPaused = false;
      resumed.resolve();
    },
    async pause() {
      isPaused = true;
      resumed = Promise.withResolvers();
      await Promise.all(idle);
    },
    setMetadataBytes(bytes) {
      metadataBytes = bytes;
    },
    setUntrustedFrom(ms) {
      untrustedFromMs = ms;
    },
    ask(request, expected) {
      const asked = asking.then(() => ask(outside, request, expected));
      asking = asked;
      return asked;
    },
    connections: () => clients.filter((client) => client.isConnected()).length,
    probeEvent: () => send(prober, { apiKey: keys.plain[0] ?? "", usesQuota: true, expected: [202, 503] }),
    async end() {
      isEnded = true;
      resumed.resolve();
      for (const client of clients) client.close();
      await Promise.race([Promise.all(running), Bun.sleep(ANSWER_LIMIT_MS + 1_000)]);
    },
  };
}

interface PlainEvent {
  readonly apiKey: string;
  readonly usesQuota: boolean;
  readonly expected: readonly number[];
}

function rest(outcome: Outcome): Promise<void> {
  const isGood = outcome.kind === "answer" && outcome.status !== 503;
  return Bun.sleep(isGood ? PAUSE_MS : RETRY_MS);
}

type Answer = Extract<Outcome, { kind: "answer" }>;

function isAcknowledged(outcome: Outcome): outcome is Answer {
  return outcome.kind === "answer" && outcome.status === 202;
}

/**
 * Tells whether it is unknown if the event was stored. A request that did not reach the service is known
 * not to be stored.
 */
function isUnknown(outcome: Outcome): boolean {
  return outcome.kind === "none" ? outcome.why !== "refused" : outcome.status === 503;
}

function unknownKey(random: Random): string {
  const digits = Array.from({ length: 48 }, () => random.between(0, 15).toString(16));
  return `svc_live_${digits.join("")}`;
}
