/** The driver's `copy` streams, in the cases where they could hang or lose an error. */
import { describe, expect, test } from "bun:test";
import { copyIn, copyOut } from "../../../src/database/mod.ts";
import { inTransaction } from "../../../src/installation/backup/_transaction.ts";
import { useTestDatabase } from "../../support/use.ts";

const database = useTestDatabase({ empty: true });

const ROWS = "copy (select repeat('x', 100) from generate_series(1, 60000)) to stdout";

function endSession() {
  return database.database.query(
    (sql) => sql`
      select pg_terminate_backend(pid) from pg_stat_activity
       where query like 'copy%' and datname = current_database() and pid <> pg_backend_pid()`,
  );
}

/** Loads lines into a table that refers to itself, while `more` returns true. */
function load(line: string, more: (count: number) => Promise<boolean> | boolean): Promise<number> {
  return inTransaction(database.address, async (sql) => {
    await sql`create temp table loaded (id integer primary key, other integer references loaded (id))`;
    const copy = await copyIn(sql, "copy loaded from stdin");
    for (let count = 0; await more(count); count++) await copy.write(Buffer.from(line));
    await copy.end();
    const [row] = await sql<{ rows: number }[]>`select count(*) as rows from loaded`;
    return row?.rows ?? 0;
  });
}

describe("copyOut()", () => {
  test("yields all rows, waits for a slow reader, and leaves the session usable", async () => {
    await inTransaction(database.address, async (sql) => {
      for (let time = 0; time < 3; time++) {
        let bytes = 0;
        let chunks = 0;
        for await (const chunk of copyOut(sql, ROWS)) {
          bytes += chunk.length;
          if (++chunks % 5 === 0) await Bun.sleep(1);
        }
        expect(bytes).toBe(60_000 * 101);
        expect((await sql`select 1 as one`)[0]).toMatchObject({ one: 1 });
      }
    });
  });

  test("throws an error of the server that comes after the first rows", async () => {
    const failing = "copy (select 1 / (1000 - n) from generate_series(1, 2000) as n) to stdout";
    const reading = inTransaction(database.address, async (sql) => {
      for await (const _ of copyOut(sql, failing));
    });
    await expect(reading).rejects.toThrow("division by zero");
  });

  test("ends when its reader ends, and when its session ends", async () => {
    const stopped = inTransaction(database.address, async (sql) => {
      for await (const _ of copyOut(sql, ROWS)) throw new Error("Enough");
    });
    await expect(stopped).rejects.toThrow("Enough");
    const ended = inTransaction(database.address, async (sql) => {
      let chunks = 0;
      for await (const _ of copyOut(sql, ROWS)) if (++chunks === 10) await endSession();
    });
    await expect(ended).rejects.toThrow("CONNECTION_CLOSED");
  });
});

describe("copyIn()", () => {
  test("loads rows and resolves when they are stored", async () => {
    expect(await load("", (count) => count < 1)).toBe(0);
    expect(await load("1\t1\n2\t1\n", (count) => count < 1)).toBe(2);
  });

  test("throws for an invalid row, for a broken foreign key after the last row, and for a lost session", async () => {
    await expect(load("one\n", (count) => count < 1_000)).rejects.toThrow("invalid input syntax");
    await expect(load("1\t2\n", (count) => count < 1)).rejects.toThrow("foreign key");
    await expect(
      load("1\t1\n", async (count) => {
        if (count === 10) await endSession();
        return count < 100_000;
      }),
    ).rejects.toThrow();
  });
});
