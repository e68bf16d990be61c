/** `GET /audit?wait=…`: programs wait for the next row, and nobody else waits for them. */
import { describe, expect, test } from "bun:test";
import { revokeToken } from "../../src/operators/mod.ts";
import { ACTOR } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";

const admin = useAdmin();

/** Reads to the end of the log, and returns the cursor. */
async function end(query = "", token?: string): Promise<string> {
  for (let next = ""; ; ) {
    const { body } = await admin.call("GET", `/audit?limit=100${query}${next}`, { ...(token && { token }) });
    if (body.data.length === 0) return body.next;
    next = `&after=${body.next}`;
  }
}

async function write(name: string): Promise<void> {
  await admin.database.query(
    (sql) => sql`
      insert into audit (at, actor, action) values (now(), ${`command:${name}`}::text, 'test.row')`,
  );
}

/** Asks in the background; tells how many seconds the answer took. */
function ask(query: string, token?: string) {
  const beganMs = performance.now();
  const state = { isAnswered: false };
  const answer = admin
    .call("GET", `/audit?${query}`, { ...(token && { token }) })
    .then(({ status, body }) => {
      state.isAnswered = true;
      return { status, body, seconds: (performance.now() - beganMs) / 1_000 };
    });
  return { state, answer };
}

describe("GET /audit?wait", () => {
  test("answers at once if there are rows, otherwise with the next row, and then goes on behind it", async () => {
    const after = await end("&actor=command:next");
    const waiting = ask(`wait=20&actor=command:next&after=${after}`);
    await write("other");
    await Bun.sleep(200);
    expect(waiting.state.isAnswered).toBe(false);
    await write("next");
    const { status, body } = await waiting.answer;
    expect([status, body.data.length, body.data[0]?.actor]).toEqual([200, 1, "command:next"]);
    // Without waiting, this row is there: the answer to the old cursor comes at once.
    const again = await ask(`wait=20&actor=command:next&after=${after}`).answer;
    expect([again.body.data.length, again.seconds < 15]).toEqual([1, true]);
    expect(
      (await ask(`actor=command:next&after=${body.next}`).answer.then(({ body }) => body.data)).length,
    ).toBe(0);
  });

  test("answers an empty page with a cursor when the time is over, without a line in the log", async () => {
    const after = await end("&actor=command:never");
    const lines = admin.logLines.length;
    const { status, body, seconds } = await ask(`wait=2&actor=command:never&after=${after}`).answer;
    expect([status, body.data, body.next !== ""]).toEqual([200, [], true]);
    expect(seconds).toBeGreaterThan(1.9);
    expect(admin.logLines.slice(lines).filter((line) => line.includes("/audit"))).toEqual([]);
    const next = ask(`wait=20&actor=command:never&after=${body.next}`);
    await write("never");
    expect((await next.answer).body.data).toHaveLength(1);
  });

  test("keeps no turn of its token while it waits, and all that wait get the row", async () => {
    const token = await admin.token();
    const after = await end("", token);
    const waiting: ReturnType<typeof ask>[] = [];
    // More than have a turn or a place in the line of their token: 36.
    for (let round = 0; round < 3; round++) {
      for (let each = 0; each < 15; each++) waiting.push(ask(`wait=20&after=${after}`, token));
      const others = Array.from({ length: 4 }, () => admin.call("GET", "/keys?limit=1", { token }));
      expect((await Promise.all(others)).map(({ status }) => status)).toEqual(Array(4).fill(200));
    }
    expect(waiting.filter(({ state }) => state.isAnswered)).toHaveLength(0);
    await write("for-all");
    const answers = await Promise.all(waiting.map(({ answer }) => answer));
    expect(answers.map(({ status, body }) => [status, body.data.length])).toEqual(Array(45).fill([200, 1]));
  });

  test("asks for the right again: a token that was revoked meanwhile gets no row", async () => {
    const token = await admin.token({ name: "follower" });
    // A transaction of another test on the server delays the row of the token's issue, which is not meant here.
    const only = "&action=token.revoke";
    const waiting = ask(`wait=20&after=${await end(only, token)}${only}`, token);
    await Bun.sleep(100);
    await revokeToken(admin.database, "follower", { actor: ACTOR, now: admin.clock.now() });
    const { status, body } = await waiting.answer;
    expect([status, body.code, body.data]).toEqual([401, "INVALID_TOKEN", undefined]);
  });

  test("takes whole seconds from 0 to 20, and a cursor of a request with another wait", async () => {
    for (const wait of ["21", "-1", "1.5", "x"]) {
      const { status, body } = await ask(`wait=${wait}`).answer;
      expect([wait, status, body.details?.[0]?.field]).toEqual([wait, 400, "wait"]);
    }
    const after = await end("&actor=command:none");
    expect((await ask(`wait=0&actor=command:none&after=${after}`).answer).status).toBe(200);
  });
});
