/** What rows of the audit log say of notices, also long after they were written. */
import { expect, test } from "bun:test";
import { listAudit } from "../../src/audit/mod.ts";
import { parseId } from "../../src/base/ids.ts";
import { markDone, remindLater, sayRows } from "../../src/notices/mod.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, issue, orThrow } from "../support/issue.ts";
import { useForEach } from "../support/use.ts";
import { makeAt, notices } from "./notices_kit.ts";

const server = useForEach(createTestDatabase);
const END = "2027-02-28T23:59:59Z";

/** Returns what each row about a notice says now, the oldest first, up to the name of the license. */
async function said(): Promise<string[]> {
  const rows = await listAudit(server.database, { oldestFirst: true });
  const found = await sayRows(server.database, rows, new Date(END));
  return found.flatMap(({ says }) => (says === undefined ? [] : [says.replace(/ of \S+ \(\S+\)/, "")]));
}

test("A row says what was done with its notice, and what has become of it since", async () => {
  const made = new Date("2026-01-01T00:00:00Z");
  const { licenseUuid } = await issue(server.database, { expiresAt: new Date(END), now: made });
  await makeAt(server.database, "2027-02-01T12:00:00Z");
  const [notice] = await notices(server.database, "2027-02-01");
  const uuid = parseId("ntc", notice?.id ?? "") ?? "";
  const by = { actor: ACTOR, now: new Date("2027-02-01T13:00:00Z") };
  orThrow(await remindLater(server.database, uuid, { ...by, remindAt: new Date("2027-02-10T00:00:00Z") }));
  await makeAt(server.database, "2027-02-10T00:00:00Z");
  const what = "The license ends within 30 days, on 2027-02-28";
  expect(await said()).toEqual([
    `${what}. Renew it if the customer stays`,
    `Put off until 2027-02-10: ${what}`,
    `Reminder: ${what}. Renew it if the customer stays`,
  ]);
  orThrow(await markDone(server.database, uuid, by));
  expect(await said()).toEqual([
    `${what} (marked as done since)`,
    `Put off until 2027-02-10: ${what}`,
    `Reminder: ${what} (marked as done since)`,
    `Marked as done: ${what}`,
  ]);
  // The next one is made, and then withdrawn.
  await makeAt(server.database, "2027-02-22T00:00:00Z");
  await server.database.query(
    (sql) => sql`update licenses set expires_at = '2028-02-28' where id = ${licenseUuid}::uuid`,
  );
  await makeAt(server.database, "2027-02-22T00:10:00Z");
  const next = "The license ends within 7 days, on 2027-02-28";
  expect((await said()).slice(-2)).toEqual([
    `${next} (withdrawn since, because the end is another one now)`,
    `Withdrawn, because the end is another one now: ${next}`,
  ]);
});
