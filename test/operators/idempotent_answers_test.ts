/** A repeated request gets the stored answer; only the holder of the raw key can open it. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { isRefusal, type Refusal, refuse } from "../../src/base/refusal.ts";
import { generateRootSecret, type Secrets } from "../../src/base/secrets/mod.ts";
import type { StoreAnswer } from "../../src/licensing/keys/mod.ts";
import { answerOnce, issueToken, tokenPattern } from "../../src/operators/mod.ts";
import { dumpText } from "../support/dump.ts";
import { ACTOR, BRAND, NOW, sentenceOf } from "../support/issue.ts";
import { openSecrets } from "../support/secrets.ts";
import { useTestDatabase } from "../support/use.ts";

const HOUR_MS = 3_600_000;
const server = useTestDatabase();
const secrets = newSecrets();

function newSecrets() {
  return openSecrets(generateRootSecret());
}

let tokens = 0;
async function newToken(): Promise<string> {
  const request = { name: `shop-${++tokens}`, scopes: ["keys:issue"], restriction: {} } as const;
  const issued = await issueToken(server.database, request, { brand: BRAND, actor: ACTOR, now: NOW });
  if (isRefusal(issued)) throw new Error(issued.sentence);
  expect(issued.token).toMatch(tokenPattern(BRAND));
  const [row] = await server.database.query<{ id: string }>(
    (sql) => sql`select id from tokens where name = ${request.name}`,
  );
  return row?.id ?? "";
}

interface Answer {
  readonly id: unknown;
  readonly apiKey: string;
}

const KEY = "order-2026-11-0815";

/** Makes an operator in place of an API key: any row will do. Each answer has another API key. */
async function send(
  tokenUuid: string,
  {
    key = KEY,
    request = "POST /keys {}",
    name = `made-${randomBytes(6).toString("hex")}`,
    now = NOW,
    by = secrets,
  } = {},
): Promise<Answer | Refusal> {
  const perform = async (storeAnswer: StoreAnswer) => {
    const apiKey = `svc_test_${randomBytes(24).toString("hex")}`;
    await server.database.query(
      (sql) => sql`
        with made as (
          insert into operators (name, role, created_at) values (${name}, 'viewer', ${now}::timestamptz) returning name
        ),
        answered as (
          ${storeAnswer(sql, { from: sql`made`, answer: sql`jsonb_build_object('id', name)`, apiKey })}
        )
        select name from made`,
    );
    return { id: name, apiKey };
  };
  const made = await answerOnce(server.database, { tokenUuid, key, request }, { secrets: by, now, perform });
  return isRefusal(made) || !("answer" in made) ? made : { id: made.answer.id, apiKey: made.apiKey };
}

async function countMade(): Promise<number> {
  const [row] = await server.database.query<{ made: number }>(
    (sql) => sql`select count(*) as made from operators where name like 'made-%'`,
  );
  return row?.made ?? 0;
}

describe("answerOnce()", () => {
  test("repeats the answer with its API key, and makes nothing more", async () => {
    const token = await newToken();
    const first = await send(token);
    const made = await countMade();
    expect(await send(token)).toEqual(first);
    expect(await send(token, { now: new Date(NOW.getTime() + 24 * HOUR_MS - 1) })).toEqual(first);
    expect(await countMade()).toBe(made);
  });

  test("gives 24 simultaneous requests one answer", async () => {
    const token = await newToken();
    const made = await countMade();
    const answers = await Promise.all(Array.from({ length: 24 }, () => send(token)));
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(await countMade()).toBe(made + 1);
  });

  test("refuses the same key with another request", async () => {
    const token = await newToken();
    await send(token);
    const refused = await send(token, { request: 'POST /keys {"tier":"free"}' });
    expect(refused).toMatchObject({ code: "CLAIM_MISMATCH" });
    expect(sentenceOf(refused)).not.toContain(KEY);
  });

  test("keeps the keys of two integrations, and two keys of one, apart", async () => {
    const token = await newToken();
    const answers = [await send(token), await send(await newToken()), await send(token, { key: `${KEY}-2` })];
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(3);
  });

  test("carries the request out again after 24 hours", async () => {
    const token = await newToken();
    const first = await send(token);
    const later = { now: new Date(NOW.getTime() + 24 * HOUR_MS) };
    const second = await send(token, later);
    expect(second).not.toEqual(first);
    expect(await send(token, later)).toEqual(second);
  });

  test("repeats the answer of a request that took a unique name a moment before", async () => {
    const token = await newToken();
    let first: unknown;
    const refused = await answerOnce<Answer>(
      server.database,
      { tokenUuid: token, key: KEY, request: "POST /keys {}" },
      {
        secrets,
        now: NOW,
        async perform() {
          first = await send(token);
          return refuse("ALREADY_EXISTS", "Cannot issue key: the external id is taken");
        },
      },
    );
    const { id, apiKey } = first as Answer;
    expect(refused).toEqual({ answer: { id }, apiKey });
  });

  test("stores no answer of a request that is refused", async () => {
    const token = await newToken();
    const refusal = refuse("NOT_ALLOWED", "Cannot issue key: the token may not");
    const request = { tokenUuid: token, key: KEY, request: "POST /keys {}" };
    const perform = async () => refusal;
    const options = { secrets, now: NOW, perform };
    expect(await answerOnce(server.database, request, options)).toBe(refusal);
    expect(isRefusal(await send(token))).toBe(false);
  });

  test("stores neither the API key nor the Idempotency-Key, and opens no answer with another root secret", async () => {
    const token = await newToken();
    const answer = (await send(token)) as Answer;
    const dump = await dumpText(server.database);
    expect(dump).toContain(String(answer.id));
    expect(dump).not.toContain(answer.apiKey);
    expect(dump).not.toContain(answer.apiKey.slice(-48));
    expect(dump).not.toContain(KEY);
    await expect(send(token, { by: newSecrets() })).rejects.toThrow("Cannot open the stored answer");
  });

  test("seals the API key so that the root secret opens it only with the raw Idempotency-Key", async () => {
    const token = await newToken();
    const { apiKey } = (await send(token)) as Answer;
    const [row] = await server.database.query<{ sealed: string }>(
      (sql) => sql`select sealed_api_key as sealed from idempotent_answers where token_id = ${token}::uuid`,
    );
    const open = (by: Secrets) => by.open("idempotent-answer", row?.sealed ?? "", token);
    expect(open(secrets.derive("idempotent-answer", KEY))).toBe(apiKey);
    expect(open(secrets)).toBeUndefined();
    expect(open(secrets.derive("idempotent-answer", `${KEY}x`))).toBeUndefined();
    expect(open(newSecrets().derive("idempotent-answer", KEY))).toBeUndefined();
  });
});
