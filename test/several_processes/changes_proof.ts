/**
 * Promise 2, between processes. A change that one process answered, or a command committed, is in force in another
 * process within a second. This holds while both are busy, and after a restart of their database.
 */
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { issue } from "../support/issue.ts";
import type { JsonResponse } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { createInstallation, type Replica } from "./installation.ts";
import { type Load, startLoad } from "./load.ts";

// Runs alone: it judges a time.

/** No process gives an answer without the change after this time. On a busy machine the first with it may come later. */
const WITHIN_MS = 1_000;
const KNOWN_MS = 5_000;
/** After a restart a process may first have to connect to its database again, which takes 2 s at most on an idle machine. */
const RECOVERY_MS = 6_000;
const CLIENTS = 8;
const KEYS_A_CHANGE = 3;
/** A restart is over when all clients were served this many times in a row. */
const SERVED_ROUNDS = 5;

const installation = useForAll(createInstallation);
let here: Replica;
let elsewhere: Replica;
const loads: Load[] = [];

beforeAll(async () => {
  // Both start at the same time, on an empty database.
  [here, elsewhere] = await Promise.all([installation.serve(), installation.serve()]);
});

/**
 * Waits until both processes serve again, because each connection of a pool must first reconnect after a
 * restart.
 */
beforeEach(untilServing);
async function untilServing(): Promise<void> {
  await untilHealthy();
  const { apiKey } = await issue(installation.database, { tier: "enterprise" });
  const event = { api_key: apiKey, event_type: "inference" };
  for (const replica of [here, elsewhere]) {
    for (let served = 0; served < SERVED_ROUNDS; served++) {
      const answers = await Promise.all(
        Array.from({ length: CLIENTS }, () => replica.post("/v1/analytics/log", event)),
      );
      if (answers.some(({ status }) => status !== 202)) served = 0;
    }
  }
}
async function untilHealthy(): Promise<void> {
  for (const replica of [here, elsewhere]) {
    await until(async () => (await replica.get("/api/health")).status === 200);
  }
}
afterEach(endLoads);

interface Change {
  readonly title: string;
  /** Resolves when the change is in force: at the answer, or at the end of the command. */
  make(key: IssuedKey): Promise<unknown>;
  /** Tells whether the answer shows the change. */
  isKnownIn(answer: JsonResponse): boolean;
}

const run = async (...args: string[]) => {
  const { status, err } = await installation.run(args);
  if (status !== 0) throw new Error(err);
};
const isRefused = ({ status, body }: JsonResponse) => status === 401 && body.code === "INVALID_KEY";

const CHANGES: readonly Change[] = [
  {
    title: "a revoke over HTTP",
    async make({ apiKey }) {
      const { status, body } = await here.post("/v1/auth/revoke", { api_key: apiKey });
      if (status !== 200) throw new Error(`${status} ${body.code}`);
    },
    isKnownIn: isRefused,
  },
  {
    title: "a revoke by command",
    make: ({ id }) => run("keys", "revoke", id, "--reason", "lost"),
    isKnownIn: isRefused,
  },
  {
    title: "a change of tier",
    make: ({ id }) => run("keys", "tier", id, "enterprise"),
    isKnownIn: ({ status, body }) => status === 200 && body.license_type === "enterprise",
  },
  {
    title: "a suspension",
    make: ({ id }) => run("keys", "suspend", id),
    isKnownIn: isRefused,
  },
];

const validate = (at: Replica, { apiKey }: IssuedKey) => at.post("/v1/auth/validate", { api_key: apiKey });

async function issueWarm(): Promise<IssuedKey> {
  const key = await issue(installation.database);
  for (const replica of [here, elsewhere]) expect((await validate(replica, key)).status).toBe(200);
  return key;
}

async function loadBoth(): Promise<void> {
  const keys = await Promise.all(
    Array.from({ length: CLIENTS }, () => issue(installation.database, { tier: "enterprise" })),
  );
  for (const replica of [here, elsewhere]) {
    loads.push(
      startLoad(
        replica,
        keys.map(({ apiKey }) => apiKey),
      ),
    );
  }
}

async function endLoads(): Promise<Awaited<ReturnType<Load["stop"]>>[]> {
  return await Promise.all(loads.splice(0).map((load) => load.stop()));
}

/**
 * Validates in the other process without a pause until the change shows there. Returns the time from `heldAtMs` to the
 * start of the last answer without the change, and to the arrival of the first answer with it.
 */
async function watch(key: IssuedKey, { isKnownIn }: Change, heldAtMs: () => number) {
  let lastOldMs = Number.NEGATIVE_INFINITY;
  for (;;) {
    const beganMs = performance.now();
    const answer = await validate(elsewhere, key);
    if (isKnownIn(answer))
      return { oldForMs: lastOldMs - heldAtMs(), knownMs: performance.now() - heldAtMs() };
    // While the process has no database, its answers show neither state.
    if (answer.status === 200) lastOldMs = beganMs;
    else expect(answer.status).toBe(503);
    if (performance.now() - heldAtMs() > 10_000)
      throw new Error("The change never shows in the other process");
    await Bun.sleep(2);
  }
}

describe.each(CHANGES)("$title", (change) => {
  test(`is in force in the other process within a second, under load: ${KEYS_A_CHANGE} keys`, async () => {
    await loadBoth();
    for (let index = 0; index < KEYS_A_CHANGE; index++) {
      const key = await issueWarm();
      let heldAtMs = Number.POSITIVE_INFINITY;
      const watching = watch(key, change, () => heldAtMs);
      await change.make(key);
      heldAtMs = performance.now();
      const { oldForMs, knownMs } = await watching;
      expect(oldForMs).toBeLessThan(WITHIN_MS);
      expect(knownMs).toBeLessThan(KNOWN_MS);
      // In the process that answered, the change is in force at once.
      if (change.title.includes("HTTP")) expect(isRefused(await validate(here, key))).toBe(true);
    }
    for (const { succeeded, others } of await endLoads()) {
      expect(succeeded).toBeGreaterThan(10 * CLIENTS);
      // Allowed while a busy machine lets the pulse be late.
      expect(others.filter((status) => status !== 503)).toEqual([]);
    }
  });

  test("is in force there in time when the database was restarted just before", async () => {
    for (const signal of ["SIGINT", "SIGQUIT"] as const) {
      await untilServing();
      await loadBoth();
      const key = await issueWarm();
      let heldAtMs = Number.POSITIVE_INFINITY;
      const watching = watch(key, change, () => heldAtMs);
      await installation.restart(signal);
      const backAtMs = performance.now();
      await makeAsSoonAsPossible(change, key);
      heldAtMs = performance.now();
      expect(heldAtMs - backAtMs).toBeLessThan(RECOVERY_MS);
      const { oldForMs, knownMs } = await watching;
      expect(oldForMs).toBeLessThan(WITHIN_MS);
      expect(knownMs + heldAtMs - backAtMs).toBeLessThan(RECOVERY_MS + KNOWN_MS);
      while (loads.some((load) => load.succeeded() <= CLIENTS)) {
        expect(performance.now() - backAtMs).toBeLessThan(2 * RECOVERY_MS);
        await Bun.sleep(5);
      }
      for (const { others } of await endLoads()) {
        // Allowed while the processes have no database.
        expect(others.filter((status) => status !== 503)).toEqual([]);
      }
    }
  });
});

/**
 * Repeats the change until it succeeds, because a process or command may first have to reconnect to the
 * database.
 */
async function makeAsSoonAsPossible({ make }: Change, key: IssuedKey): Promise<void> {
  for (const beganMs = performance.now(); ; ) {
    try {
      await make(key);
      return;
    } catch (error) {
      if (performance.now() - beganMs > RECOVERY_MS) throw error;
      await Bun.sleep(5);
    }
  }
}
