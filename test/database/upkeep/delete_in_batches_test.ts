import { expect, test } from "bun:test";
import { deleteInBatches } from "../../../src/database/upkeep/mod.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { until } from "../../support/until.ts";
import { useTestDatabase } from "../../support/use.ts";

const server = useTestDatabase();

async function readRows() {
  const rows = await server.database.query<{ id: number }>((sql) => sql`select id from old_rows order by id`);
  return rows.map(({ id }) => id);
}

const deleteOld = (isStopping = () => false) =>
  deleteInBatches(
    { database: server.database, isStopping },
    { table: "old_rows", primaryKey: ["id"], isOld: (sql) => sql`is_old` },
  );

test("deleteInBatches() skips a row that a request has locked, and deletes all others meanwhile", async () => {
  await server.database.query((sql) => sql`create table old_rows (id integer primary key, is_old boolean)`);
  await server.database.query(
    (sql) => sql`insert into old_rows select id, id <> 7 from generate_series(1, 2500) as id`,
  );
  await inTransaction(server.address, async (sql) => {
    await sql`select from old_rows where id = 5 for update`;
    let isOver = false;
    const deleted = deleteOld().then(() => {
      isOver = true;
    });
    await until(async () => isOver || (await countWaiting(server.database)) > 0);
    expect(isOver).toBe(true);
    await deleted;
    expect(await readRows()).toEqual([5, 7]);
  });
  await deleteOld(() => true);
  expect(await readRows()).toEqual([5, 7]);
  await deleteOld();
  expect(await readRows()).toEqual([7]);
});
