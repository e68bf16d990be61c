import { expect, test } from "bun:test";
import { findDemoAddresses, removeDemoOperator } from "../../src/cli/demo/console.ts";
import { findSession, loginOperator, type Role, redeemCode } from "../../src/operators/mod.ts";
import { configOf } from "../support/config.ts";
import { createTestDatabase } from "../support/database.ts";
import { ACTOR, issue, NOW as now, orThrow } from "../support/issue.ts";
import { useForEach } from "../support/use.ts";

const by = { actor: ACTOR, now };
const own = useForEach(createTestDatabase);

async function codeFor(name: string, role: Role): Promise<string> {
  return orThrow(await loginOperator(own.database, { name, role }, by)).code;
}

async function portsFor(
  settings: Readonly<Record<string, string>>,
  output: { readonly columns?: number; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<number[]> {
  const options = { config: configOf(settings), database: own.database };
  const addresses = await findDemoAddresses({ env: {}, ...output }, options);
  for (const { host } of addresses) expect(host).toBe("127.0.0.1");
  return addresses.map(({ port }) => port);
}

test("removeDemoOperator() removes the operator, but of the last admin only the sessions and codes", async () => {
  const { database } = own;
  expect(await removeDemoOperator(database, by)).toBeUndefined();
  const session = await redeemCode(database, await codeFor("demo", "admin"), { now, idleMinutes: 30 });
  const isAlive = async () =>
    (await findSession(database, session?.cookieValue ?? "", { now, extends: false })) !== undefined;
  expect(await isAlive()).toBe(true);
  const unused = await codeFor("demo", "admin");
  expect(await removeDemoOperator(database, by)).toBe("kept");
  expect(await isAlive()).toBe(false);
  expect(await redeemCode(database, unused, { now, idleMinutes: 30 })).toBeUndefined();
  await codeFor("olga", "admin");
  expect(await removeDemoOperator(database, by)).toBe("removed");
});

test("findDemoAddresses() leaves out the ports of the other listeners, and ends with any free port", async () => {
  const ports = await portsFor({ CLAVIGER_PORT: "8082", CLAVIGER_METRICS_LISTEN: "127.0.0.1:8083" });
  expect(ports).toEqual([8081, 8084, 8085, 8086, 8087, 8088, 8089, 0]);
});

test("findDemoAddresses() finds none if a journal gets the output, beyond loopback, or in a database with keys that are no demo's", async () => {
  const env = { JOURNAL_STREAM: "8:12345" };
  expect(await portsFor({}, { env })).toEqual([]);
  expect(await portsFor({}, { env, columns: 80 })).not.toEqual([]);
  expect(await portsFor({ CLAVIGER_HOST: "0.0.0.0" })).toEqual([]);
  expect(await portsFor({ CLAVIGER_LOG_FORMAT: "json" })).toEqual([]);
  expect(await portsFor({})).not.toEqual([]);
  await issue(own.database);
  expect(await portsFor({})).toEqual([]);
});
