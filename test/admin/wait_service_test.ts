/** Programs that wait for rows of the audit log, at the service itself: hang-ups and a stop. Also runs on Node. */
import { beforeAll, expect, test } from "bun:test";
import { Agent, type ClientRequest, get } from "node:http";
import { issueToken } from "../../src/operators/mod.ts";
import { parseExposition } from "../support/exposition.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useTestService } from "../support/use.ts";

const ANY_PORT = { host: "127.0.0.1", port: 0 };
const ON_ANY_PORT = { config: { adminListen: ANY_PORT, metricsListen: ANY_PORT } };
const service = useTestService(ON_ANY_PORT);
let follower: Follower;

/** As many as wait of one token. */
const MOST = 50;

interface Answer {
  readonly status: number;
  readonly body: { readonly data: readonly { readonly actor: string }[]; readonly next: string };
  readonly seconds: number;
}

type Follower = Awaited<ReturnType<typeof follow>>;

/** Reads the log of a service with a token of its own. */
async function follow({ service, database, config, clock }: TestService, name: string) {
  const wanted = { name, scopes: ["audit:read"], restriction: {} } as const;
  const by = { brand: config.brand, actor: ACTOR, now: clock.now() };
  const authorization = `Bearer ${orThrow(await issueToken(database, wanted, by)).token}`;
  const agent = new Agent({ keepAlive: true, maxSockets: 2 * MOST });
  const ask = (query: string) => {
    const beganMs = performance.now();
    const state = { isAnswered: false };
    const answer = Promise.withResolvers<Answer>();
    answer.promise.catch(() => {});
    const request: ClientRequest = get(
      `${service.admin?.url}/admin/v1/audit?actor=command:${name}&${query}`,
      { agent, headers: { authorization } },
      async (response) => {
        let text = "";
        for await (const chunk of response) text += chunk;
        state.isAnswered = true;
        const seconds = (performance.now() - beganMs) / 1_000;
        answer.resolve({ status: response.statusCode ?? 0, body: JSON.parse(text), seconds });
      },
    );
    request.on("error", answer.reject);
    return { state, answer: answer.promise, hangUp: () => request.destroy() };
  };
  return {
    ask,
    agent,
    next: (await ask("").answer).body.next,
    write: () =>
      database.query(
        (sql) => sql`
          insert into audit (at, actor, action) values (now(), ${`command:${name}`}::text, 'test.row')`,
      ),
  };
}

beforeAll(async () => {
  follower = await follow(service, "waiter");
});

test("A program gets each row within seconds, over one connection", async () => {
  let { next } = follower;
  for (let round = 0; round < 2; round++) {
    const waiting = follower.ask(`wait=20&after=${next}`);
    await Bun.sleep(300);
    expect(waiting.state.isAnswered).toBe(false);
    await follower.write();
    const { status, body, seconds } = await waiting.answer;
    expect([status, body.data.map(({ actor }) => actor), seconds < 15]).toEqual([
      200,
      ["command:waiter"],
      true,
    ]);
    ({ next } = body);
  }
  expect(Object.values(follower.agent.freeSockets).flat()).toHaveLength(1);
});

test("The metrics have the number of programs that wait now", async () => {
  const waiting = async () => {
    const text = await (await fetch(`http://127.0.0.1:${service.service.metrics?.port}/metrics`)).text();
    return parseExposition(text).get("claviger_audit_followers_waiting")?.samples.values().next().value;
  };
  expect(await waiting()).toBe(0);
  const { next } = (await follower.ask("limit=100").answer).body;
  const programs = [1, 2, 3].map(() => follower.ask(`wait=20&after=${next}`));
  await until(async () => (await waiting()) === 3);
  for (const { hangUp } of programs) hangUp();
  await until(async () => (await waiting()) === 0, { limitMs: 15_000 });
});

test("A program that hangs up frees its place for another", async () => {
  const query = "wait=20&limit=1";
  const { next } = (await follower.ask("limit=100").answer).body;
  const waiting: ReturnType<Follower["ask"]>[] = [];
  for (let index = 0; index < MOST; index++) {
    waiting.push(follower.ask(`${query}&after=${next}`));
    // Not more at a time than its token may send.
    if (index % 10 === 9) await Bun.sleep(100);
  }
  await until(async () => {
    // Without a place it is answered at once.
    const { status, seconds, body } = await follower.ask(`wait=2&after=${next}`).answer;
    return status === 200 && body.data.length === 0 && seconds < 1.5;
  });
  expect(waiting.filter(({ state }) => state.isAnswered)).toEqual([]);
  for (const { hangUp } of waiting) hangUp();
  const { seconds } = await until(async () => {
    const answer = await follower.ask(`wait=2&after=${next}`).answer;
    return answer.seconds > 1.8 && answer;
  });
  expect(seconds).toBeLessThan(15);
});

test("A stop answers those that wait at once, with what there is", async () => {
  const stopping = await startTestService({ ...ON_ANY_PORT, on: service.testDatabase });
  try {
    const { ask, next } = await follow(stopping, "stopped");
    const waiting = ask(`wait=20&after=${next}`);
    await Bun.sleep(300);
    expect(waiting.state.isAnswered).toBe(false);
    const beganMs = performance.now();
    await stopping.close();
    const { status, body, seconds } = await waiting.answer;
    expect([status, body.data]).toEqual([200, []]);
    expect(seconds).toBeLessThan(15);
    expect(performance.now() - beganMs).toBeLessThan(9_000);
  } finally {
    await stopping.close();
  }
});
