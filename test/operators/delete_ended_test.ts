import { expect, test } from "bun:test";
import { deleteEnded } from "../../src/operators/delete_ended.ts";
import { issueToken } from "../../src/operators/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { ACTOR, BRAND, NOW } from "../support/issue.ts";
import { useTestDatabase } from "../support/use.ts";
import { enter, login } from "./login.ts";

const server = useTestDatabase();

async function counts(): Promise<unknown> {
  const [row] = await server.database.query(
    (sql) => sql`
      select (select count(*) from login_codes) as codes, (select count(*) from operator_sessions) as sessions,
             (select count(*) from idempotent_answers) as answers`,
  );
  return row;
}

const clean = (minutes: number, isStopping = () => false) =>
  deleteEnded({
    database: server.database,
    clock: createTestClock(new Date(NOW.getTime() + minutes * 60_000).toISOString(), { stands: true }),
    isStopping,
  });

test("deleteEnded() deletes codes, sessions and answers after their end, however many, and no others", async () => {
  await login(server.database, "olga", { role: "admin" });
  await enter(server.database, "olga");
  await enter(server.database, "olga", { idleMinutes: 480 });
  const request = { name: "shop", scopes: ["keys:issue"], restriction: {} } as const;
  await issueToken(server.database, request, { brand: BRAND, actor: ACTOR, now: NOW });
  await server.database.query(
    (sql) => sql`
      insert into idempotent_answers (token_id, key_hash, request_digest, answer, sealed_api_key, created_at)
      select id, sha256(number::text::bytea), sha256('request'), '{}', 'sealed', ${NOW}::timestamptz
        from tokens, generate_series(1, 2100) as number`,
  );
  await clean(9.9);
  expect(await counts()).toEqual({ codes: 1, sessions: 2, answers: 2100 });
  await clean(10);
  expect(await counts()).toEqual({ codes: 0, sessions: 2, answers: 2100 });
  // A request that began before a session timed out can take four hours more, and asks at its end whether it was ended.
  await clean(16 * 60 - 0.1);
  expect(await counts()).toEqual({ codes: 0, sessions: 2, answers: 2100 });
  await clean(16 * 60);
  expect(await counts()).toEqual({ codes: 0, sessions: 0, answers: 2100 });
  await clean(24 * 60 - 0.1);
  expect(await counts()).toEqual({ codes: 0, sessions: 0, answers: 2100 });
  await clean(24 * 60, () => true);
  expect(await counts()).toMatchObject({ answers: 2100 });
  await clean(24 * 60);
  expect(await counts()).toMatchObject({ answers: 0 });
});
