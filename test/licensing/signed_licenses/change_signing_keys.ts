/**
 * Rotates or retires the signing key in a process of its own, which a test kills. Its arguments are the address of the
 * database as JSON and the key to retire at once; without a key it rotates. The root secret is no argument, because tests
 * that run at the same time search every command line for it.
 */
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import { openDatabase, openSession } from "../../../src/database/mod.ts";
import { retireSigningKey, rotateSigningKey } from "../../../src/licensing/signed_licenses/mod.ts";
import { openSecrets } from "../../support/secrets.ts";

const [address = "", kid] = process.argv.slice(2);
const change = {
  secrets: openSecrets(),
  actor: { kind: "command", name: "test" },
  now: new Date(),
} as const;
if (kid === undefined) {
  const database = openDatabase(JSON.parse(address), { clock: systemClock, log: silentLog });
  await rotateSigningKey(database, change);
  await database.close();
} else {
  const session = openSession(JSON.parse(address), { statementTimeoutMs: 20_000 });
  await retireSigningKey(session, kid, { ...change, isLeaked: true });
  await session.close();
}
