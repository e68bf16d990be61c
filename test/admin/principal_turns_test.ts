/** No operator and no token takes the connections to the database away from the others. */
import { expect, test } from "bun:test";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { openDatabase } from "../../src/database/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { countWaiting } from "../support/count_waiting.ts";
import { inTransaction } from "../support/in_transaction.ts";
import { until } from "../support/until.ts";
import { useTestDatabase } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";

const testDatabase = useTestDatabase();

test("An operator with two sessions and a token each have four requests at a time, and nobody else waits for them", async () => {
  // As many connections as the listener for operators has.
  const database = openDatabase(testDatabase.address, { clock: systemClock, log: silentLog });
  const admin = await startAdmin({ on: testDatabase, admin: { database } });
  try {
    const operators = createConsoleClient(admin);
    const busy = await operators.logIn("viewer");
    const cookies = [busy.cookie, (await operators.logIn("viewer", busy.name)).cookie];
    const other = await operators.logIn("viewer");
    const token = await admin.token();
    const inAll = 60;
    let answered = 0;
    const waiting = await inTransaction(testDatabase.address, async (sql) => {
      // Whoever asks for a model waits for this lock.
      await sql`lock table models in access exclusive mode`;
      const asked = Array.from({ length: inAll }, async (_, index) => {
        const { status, headers } = await operators.send("/models/none", {
          cookie: cookies[index % 2] ?? "",
        });
        answered++;
        return `${status} ${headers.get("retry-after")}`;
      });
      await until(async () => (await countWaiting(testDatabase.database)) >= 4);
      // Four have a turn and 32 wait for one: once the others are refused, those of both sessions have arrived.
      await until(async () => answered >= inAll - 36);
      expect(await countWaiting(testDatabase.database)).toBeLessThanOrEqual(4);
      const others = [
        ...Array.from({ length: 3 }, () => admin.call("GET", "/keys?limit=1", { token })),
        ...Array.from({ length: 3 }, () => operators.send("/keys", { cookie: other.cookie })),
      ];
      expect((await Promise.all(others)).map(({ status }) => status)).toEqual(Array(6).fill(200));
      return { asked };
    });
    const answers = Object.groupBy(await Promise.all(waiting.asked), (answer) => answer);
    expect(answers["429 1"]?.length).toBeGreaterThan(0);
    // Everybody has a turn again.
    for (const cookie of cookies) expect((await operators.send("/models", { cookie })).status).toBe(200);
  } finally {
    await admin.close();
    await database.close();
  }
});
