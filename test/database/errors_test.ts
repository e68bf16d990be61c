import { describe, expect, test } from "bun:test";
import { silentLog } from "../../src/base/log.ts";
import {
  constraintOf,
  DatabaseUnavailable,
  isDataError,
  openDatabase,
  type Sql,
} from "../../src/database/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { useTestDatabase } from "../support/use.ts";

const server = useTestDatabase({ empty: true });

async function errorOf(build: (sql: Sql) => ReturnType<Sql>, { query } = server.database): Promise<unknown> {
  return await query(build as never).then(
    () => undefined,
    (reason: unknown) => reason,
  );
}

describe("toDatabaseError()", () => {
  const states: [code: string, is: "unavailable" | "data" | "other"][] = [
    ["08006", "unavailable"],
    ["25006", "unavailable"],
    ["28000", "unavailable"],
    ["3D000", "unavailable"],
    ["40P01", "unavailable"],
    ["53100", "unavailable"],
    ["55P03", "unavailable"],
    ["57P01", "unavailable"],
    ["58030", "unavailable"],
    ["22003", "data"],
    ["23514", "data"],
    ["42601", "other"],
    ["XX000", "other"],
  ];

  test.each(states)("toDatabaseError() classifies SQLSTATE %s as %s", async (code, is) => {
    const error = await errorOf(
      (sql) => sql`${sql.unsafe(`do $$ begin raise exception 'made up' using errcode = '${code}'; end $$`)}`,
    );
    expect(error).toMatchObject({ code });
    expect(error instanceof DatabaseUnavailable).toBe(is === "unavailable");
    expect(isDataError(error)).toBe(is === "data");
  });

  test("toDatabaseError() does not change errors of our own code", async () => {
    const error = await errorOf((sql) => sql`select ${undefined as unknown as string}::text`);
    expect(error).toMatchObject({ code: "UNDEFINED_VALUE" });
    expect(error).not.toBeInstanceOf(DatabaseUnavailable);
  });

  test("toDatabaseError() classifies a server that cannot be reached as unavailable", async () => {
    const address = { socketPath: "/nowhere/.s.PGSQL.5432", user: "nobody", database: "none" };
    const options = { clock: createTestClock(), log: silentLog, deadlineMs: 1_000 };
    const database = openDatabase(address, options);
    expect(await errorOf((sql) => sql`select 1`, database)).toMatchObject({
      name: "DatabaseUnavailable",
      code: "ENOENT",
    });
    await database.close();
  });
});

test("constraintOf() names the violated constraint", async () => {
  await server.database.query((sql) =>
    sql.unsafe(`create table thing (
      id integer constraint thing_pkey primary key constraint id_not_negative check (id >= 0))`),
  );
  const insert = (id: number) => errorOf((sql) => sql`insert into thing (id) values (${id}::integer)`);
  expect(constraintOf(await insert(-1))).toBe("id_not_negative");
  expect(await insert(1)).toBeUndefined();
  expect(constraintOf(await insert(1))).toBe("thing_pkey");
  expect(constraintOf(new Error("of another kind"))).toBeUndefined();
});
