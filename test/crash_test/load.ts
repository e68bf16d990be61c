/**
 * The load: clients that validate, list models and send events, each on a connection of its own and each
 * waiting for its answer. It can be paused, which leaves nothing unsettled: every event with an
 * `Idempotency-Key` is sent again until it is acknowledged.
 */
import { type Client, createClient, type Outcome, type Request } from "./http_client.ts";
import { ANSWER_LIMIT_MS, type Ledger } from "./ledger.ts";
import type { Random } from "./random.ts";

export interface LoadKeys {
  /** Their events carry no `Idempotency-Key`: what is answered 503 may have counted. */
  readonly plain: readonly string[];
  /** Their events carry one each, and are sent until they are acknowledged: their counts are exact. */
  readonly claimed: readonly string[];
  /** Has a small monthly limit. */
  readonly limited: string;
}

export interface LoadOptions {
  readonly keys: LoadKeys;
  readonly ledger: Ledger;
  readonly random: Random;
  /** Where the service listens now; undefined while it is known to be down. */
  readonly port: () => number | undefined;
  /** Counts the times that the service is brought down and stands again: odd while it may be down. */
  readonly downs: () => number;
}

export interface Load {
  /** Every client goes on. */
  resume(): void;
  /** Resolves when every client has what it asked for, and nothing is on its way. */
  pause(): Promise<void>;
  /** The form of events from now on: large ones fill a disk. */
  setMetadataBytes(bytes: number): void;
  /** From then on no validate that begins may succeed: nobody feels the pulse. */
  setUntrustedFrom(ms: number | undefined): void;
  /** Asks once, outside the load; judged like the rest. */
  ask(request: Request, expected: readonly number[]): Promise<Outcome>;
  /** How many connections the clients keep open. */
  connections(): number;
  /** Sends one event without an `Idempotency-Key`, outside the load, counted like the rest. */
  probeEvent(): Promise<Outcome>;
  end(): Promise<void>;
}

/** Between two requests of a client: some 800 requests a second altogether, so that the machine has air. */
const PAUSE_MS = 15;
/** After a refusal: sooner than `Retry-After` asks for, and no storm. */
const RETRY_MS = 40;
const MODEL_LOAD_SHARE = 0.1;
const UNKNOWN_KEY_SHARE = 0.1;
/** However long the database was away: an event with an `Idempotency-Key` is settled within this. */
const SETTLE_LIMIT_MS = 90_000;

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
    // Still so: had the pulse been felt again meanwhile, the answer might have been good.
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

/** Whether nobody can say if the event was stored: whoever was not reached has not stored it. */
function isUnknown(outcome: Outcome): boolean {
  return outcome.kind === "none" ? outcome.why !== "refused" : outcome.status === 503;
}

function unknownKey(random: Random): string {
  const digits = Array.from({ length: 48 }, () => random.between(0, 15).toString(16));
  return `svc_live_${digits.join("")}`;
}
