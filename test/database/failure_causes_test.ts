/**
 * What is said about an error: only an error of the database blames the database. `cli/refused_login_test.ts` has the
 * reasons for which a server refuses a connection.
 */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { silentLog } from "../../src/base/log.ts";
import { explainFailure, openDatabase, renderFailureCause } from "../../src/database/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase({ empty: true });

/** Runs a statement that fails with a SQLSTATE; returns the error. */
async function failWith(code: string): Promise<unknown> {
  const statement = `do $$ begin raise exception 'made up' using errcode = '${code}'; end $$`;
  return await errorOf(server.database.query((sql) => sql`${sql.unsafe(statement)}`));
}

async function errorOf(work: Promise<unknown>): Promise<unknown> {
  return await work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe("explainFailure()", () => {
  test("blames the parameters of the address only for a connection that was refused, not for a statement", async () => {
    for (const code of ["42601", "42704", "22023"]) {
      expect(explainFailure(await failWith(code))).toMatchObject({
        why: `made up (${code})`,
        remedy: undefined,
        isRefused: true,
        needsPerson: false,
      });
    }
  });

  test("says for damaged data that a person is needed, and to restore a backup", async () => {
    for (const code of ["XX001", "XX002"]) {
      expect(explainFailure(await failWith(code))).toMatchObject({
        why: `made up (${code})`,
        remedy: expect.stringContaining("restore a backup"),
        needsPerson: true,
      });
    }
  });

  test("says of a full disk what to do, and needs no person to start again", async () => {
    expect(explainFailure(await failWith("53100"))).toMatchObject({
      why: "made up (53100)",
      remedy: "free some space on the server's disk",
      isRefused: true,
      needsPerson: false,
    });
  });

  test("does not explain an error that comes from elsewhere, such as another missing file", async () => {
    const missing = await errorOf(Promise.resolve().then(() => readFileSync("/nowhere/model.onnx")));
    expect(missing).toMatchObject({ code: "ENOENT" });
    expect(explainFailure(missing)).toBeUndefined();
    expect(renderFailureCause(missing)).toContain("/nowhere/model.onnx");
    expect(explainFailure(new Error("of another kind"))).toBeUndefined();
  });

  test("names DATABASE_URL only if the database has one", async () => {
    const address = { socketPath: "/nowhere/.s.PGSQL.5432", user: "nobody", database: "none" };
    const inside = openDatabase(address, { clock: createTestClock(), log: silentLog, deadlineMs: 1_000 });
    const gone = await errorOf(inside.query((sql) => sql`select 1`));
    await inside.close();
    const cause = { why: "nothing listens there", isRefused: false, needsPerson: false };
    expect(explainFailure(gone)).toMatchObject({ ...cause, remedy: "check that it runs" });
    expect(explainFailure(gone, { isInside: false })).toMatchObject({
      ...cause,
      remedy: "check that it runs and that DATABASE_URL is right",
    });
    expect(renderFailureCause(gone)).toBe("nothing listens there; check that it runs");
  });
});
