/** A `kill -9` of the service between the commit of an activation and its answer. */
import { expect, test } from "bun:test";
import { createInstallation } from "../../several_processes/installation.ts";
import { countWaiting } from "../../support/count_waiting.ts";
import { inTransaction } from "../../support/in_transaction.ts";
import { licenseWith } from "../../support/machines.ts";
import { until } from "../../support/until.ts";
import { useForAll } from "../../support/use.ts";

const installation = useForAll(createInstallation);

test("An activation that was committed but never answered is repeated: the same machine, and one place taken", async () => {
  const { database } = installation;
  const [killed, other] = [await installation.serve(), await installation.serve()];
  const { apiKey, licenseUuid } = await licenseWith(database, { maxMachines: 1, seatMinutes: 5 });
  const activate = (at: typeof killed, fingerprint: string) =>
    at.post("/v1/machines/activate", { api_key: apiKey, fingerprint });

  // The activation waits for the license until the process is stopped, so the process cannot read that it was committed.
  const answer = await inTransaction(installation.address, async (sql) => {
    await sql`select from licenses where id = ${licenseUuid}::uuid for no key update`;
    const status = activate(killed, "machine-one").then(
      (answered) => answered.status,
      () => "no answer",
    );
    await until(async () => (await countWaiting(database)) > 0);
    process.kill(killed.pid, "SIGSTOP");
    return { status };
  });
  const committed = await until(async () => {
    const [row] = await database.query<{ id: string }>(
      (sql) => sql`
        select 'mch_' || replace(id::text, '-', '') as id from machines where license_id = ${licenseUuid}::uuid`,
    );
    return row?.id;
  });
  await killed.kill("SIGKILL");
  expect(await answer.status).toBe("no answer");

  expect((await activate(other, "machine-two")).status).toBe(409);
  const repeated = await activate(other, "machine-one");
  expect(repeated).toMatchObject({
    status: 200,
    body: { machine_id: committed, machines: { limit: 1, used: 1 } },
  });
});
