/**
 * Reads the history of three processes that share the windows of keys, under a random load, while they are killed and
 * started again and PostgreSQL restarts: no 60 s have more admitted requests of a key than its limit. PostgreSQL also
 * crashes once, which empties the windows: 60 s around the crash have at most twice the limit.
 * `SHARED_WINDOWS_SECONDS=600 make prove ARGS=test/clients/shared_windows` goes on for ten minutes.
 */
import { expect, test } from "bun:test";
import type { IssuedKey } from "../../../src/licensing/keys/mod.ts";
import { createInstallation, type Replica } from "../../several_processes/installation.ts";
import { issue } from "../../support/issue.ts";
import { createRandom } from "../../support/random.ts";
import { useForAll } from "../../support/use.ts";
import { type Admitted, type Emptied, tooMany } from "./history.ts";

// Takes over a minute.

const SECONDS = Number(process.env.SHARED_WINDOWS_SECONDS ?? 100);
/** A third of what the clients ask for, so that a window fills over many of its seconds. */
const LIMIT = 300;
const KEYS = 4;
const CLIENTS = 12;
const MOST_PAUSE_MS = 400;
/** So the windows before the crash are full, and those after it fill again. */
const MOST_MS_AFTER_CRASH = 30_000;
const SETTINGS = { CLAVIGER_RATE_LIMITS: "shared", CLAVIGER_LIMIT_VALIDATE: String(LIMIT) };

const installation = useForAll(createInstallation);
const random = createRandom(Date.now());

test(`Three processes admit no more than the limit in any 60 s of ${SECONDS} s, in spite of kills and restarts`, async () => {
  const replicas: Replica[] = [];
  for (let i = 0; i < 3; i++) replicas.push(await installation.serve(SETTINGS));
  const issued: IssuedKey[] = [];
  for (let i = 0; i < KEYS; i++) issued.push(await issue(installation.database));
  const history = issued.map((): Admitted[] => []);
  const answers = { admitted: 0, refused: 0, unavailable: 0, lost: 0, unexpected: [] as number[] };
  const emptied: Emptied[] = [];
  const untilMs = Date.now() + SECONDS * 1_000;
  const crashMs = untilMs - MOST_MS_AFTER_CRASH;

  const client = async () => {
    while (Date.now() < untilMs) {
      const index = random.between(0, KEYS - 1);
      const sentMs = Date.now();
      const answer = await replicas[random.between(0, 2)]
        ?.post("/v1/auth/validate", { api_key: issued[index]?.apiKey })
        .catch(() => undefined);
      if (answer === undefined) answers.lost++;
      else if (answer.status === 200) {
        answers.admitted++;
        history[index]?.push({ sentMs, answeredMs: Date.now() });
      } else if (answer.status === 429) answers.refused++;
      else if (answer.status === 503) answers.unavailable++;
      else answers.unexpected.push(answer.status);
      await Bun.sleep(random.between(0, MOST_PAUSE_MS));
    }
  };
  const disturb = async () => {
    for (let round = 0; Date.now() < untilMs; round++) {
      await Bun.sleep(random.between(2_000, 5_000));
      const index = random.between(0, 2);
      // A clean restart keeps the windows.
      if (round % 6 === 5) await installation.restart("SIGINT");
      else if (emptied.length === 0 && Date.now() > crashMs) {
        const fromMs = Date.now();
        await installation.restart("SIGQUIT");
        emptied.push({ fromMs, toMs: Date.now() });
      } else {
        await replicas[index]?.kill(round % 3 === 2 ? "SIGTERM" : "SIGKILL");
        replicas[index] = await installation.serve(SETTINGS);
      }
    }
  };
  await Promise.all([disturb(), ...Array.from({ length: CLIENTS }, client)]);

  console.log(`Shared windows: ${JSON.stringify(answers)}`);
  expect(answers.unexpected).toEqual([]);
  expect(emptied).toHaveLength(1);
  for (const admitted of history) {
    expect(admitted.length).toBeGreaterThanOrEqual(LIMIT);
    expect(tooMany(admitted, { limit: LIMIT, emptied })).toEqual([]);
  }
});
