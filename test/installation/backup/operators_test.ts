/** A restore lets nobody in: tokens wait for an operator, and codes, sessions and stored answers are not in backups. */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  findTokens,
  issueToken,
  listOperators,
  listTokens,
  removeOperator,
  resumeToken,
  revokeToken,
} from "../../../src/operators/mod.ts";
import { enter, login } from "../../operators/login.ts";
import { dumpText } from "../../support/dump.ts";
import { ACTOR, BRAND, NOW, orThrow, sentenceOf } from "../../support/issue.ts";
import { useTestDatabase } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { backUp, prove, tryRestore } from "./backup_kit.ts";

const BY = { actor: ACTOR, now: NOW };
const folder = useFolder();
const path = join(folder, "backup");
const source = useTestDatabase();
const target = useTestDatabase({ empty: true });

async function issue(name: string): Promise<string> {
  const request = { name, scopes: ["keys:read"], restriction: {} } as const;
  return orThrow(await issueToken(source.database, request, { ...BY, brand: BRAND })).token;
}

test("a restore revives no revoked token, code, session or answer", async () => {
  const { database } = source;
  const tokens = {
    kept: await issue("kept"),
    revokedBefore: await issue("revoked-before"),
    revokedAfter: await issue("revoked-after"),
  };
  orThrow(await revokeToken(database, "revoked-before", BY));
  await login(database, "root", { role: "admin" });
  const { cookieValue } = await enter(database, "olga", { role: "admin" });
  const { code } = await login(database, "olga");
  await database.query(
    (sql) => sql`
      insert into idempotent_answers (token_id, key_hash, request_digest, answer, sealed_api_key, created_at)
      select id, sha256('the key'), sha256('the request'), '{"answer": "the stored answer"}', 'sealed', ${NOW}::timestamptz
        from tokens where name = 'kept'`,
  );
  expect(await dumpText(database)).toContain("the stored answer");
  await backUp(source.address, path);

  // After the backup a token is revoked, and an operator is removed.
  orThrow(await revokeToken(database, "revoked-after", BY));
  orThrow(await removeOperator(database, "olga", BY));
  const restored = await tryRestore(target.address, await prove(path));
  expect(restored).toEqual({ disabledTokens: 2 });

  const texts = Object.values(tokens);
  expect(await findTokens(target.database, texts, { now: NOW })).toEqual(new Map());
  const states = (await listTokens(target.database, { now: NOW })).map(
    ({ name, state }) => `${name} ${state}`,
  );
  expect(states).toEqual(["kept disabled", "revoked-after disabled", "revoked-before revoked"]);
  const refused = await resumeToken(target.database, "revoked-before", BY);
  expect(sentenceOf(refused)).toContain("it is revoked, which is final");
  orThrow(await resumeToken(target.database, "kept", BY));
  const [found, ...others] = await findTokens(target.database, texts, { now: NOW });
  expect({ found, others }).toMatchObject({ found: [tokens.kept, { name: "kept" }], others: [] });

  // The removed operator is back, without any code or session.
  expect(await listOperators(target.database)).toMatchObject([
    { name: "olga", removedAt: null },
    { name: "root" },
  ]);
  const content = Buffer.from(Bun.zstdDecompressSync(readFileSync(path))).toString("latin1");
  expect(content).toContain("revoked-after");
  for (const text of [cookieValue, code, "the key"]) {
    const hash = createHash("sha256").update(text).digest("hex");
    expect(content).not.toContain(hash);
  }
  expect(content).not.toContain("the stored answer");
});
