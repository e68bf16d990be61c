/**
 * One crawl over every page of the console, while there is nothing and with the longest texts; `support/crawl.ts` says
 * what is examined.
 *
 * What a page says is tested without a browser, in `test/admin/`. The other files here have what a page does: focus,
 * keyboard, script, and the width of single parts.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { CONSOLE_ROUTES } from "../../src/admin/things.ts";
import { toId } from "../../src/base/ids.ts";
import type { Finding } from "../../src/installation/doctor/mod.ts";
import { suspendKey } from "../../src/licensing/keys/mod.ts";
import { changeTier, createLicenseChanges, type Entitlements } from "../../src/licensing/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { countUse } from "../../src/usage/mod.ts";
import { createConsoleClient } from "../admin/console_client.ts";
import { awaitFile, makeSampleNotice, nameOf } from "../admin/sample_requests.ts";
import { HOSTILE, linkTo } from "../admin/texts_of.ts";
import { createTestClock } from "../support/clock.ts";
import { addDemo } from "../support/demo.ts";
import { orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { licenseWith, placeMachine, setPlaces } from "../support/machines.ts";
import { addNewModel } from "../support/new_model.ts";
import { useForAll } from "../support/use.ts";
import { addDayOfLatency } from "../usage/latency/latency_kit.ts";
import { startConsole } from "./support/console.ts";
import { examinePage } from "./support/crawl.ts";

// Axe examines a page of fifty rows four times, which took 26 s on a busy machine.
setDefaultTimeout(120_000);

const NOW = "2026-11-22T15:43:44Z";
/** Also turns the direction of the text after it. */
const TURNING = `${HOSTILE}\u202eevil`;
const FINDINGS: readonly Finding[] = [
  { name: "disk", state: "fail", message: `12 MB free for ${TURNING}`, remedy: "free some space" },
  { name: "schema", state: "warn", message: "21", remedy: "run `claviger migrate`" },
  { name: "writes", state: "skip", message: "cannot be seen", remedy: "run as root" },
];

const empty = useForAll(startConsole);
const full = useForAll(() =>
  startConsole({
    clock: createTestClock(NOW),
    admin: {
      examine: async () => FINDINGS,
      certificateExpiresAt: () => new Date("2026-11-27T00:00:00Z"),
    },
  }),
);

const PAGES = CONSOLE_ROUTES.filter(({ method, path }) => method === "GET" && !path.endsWith(".csv"));
const FIXED = PAGES.map(({ path }) => path).filter((path) => !path.includes(":"));

/** The path of a page with the longest texts, by the route; `addLongest()` adds the things. */
const longest: Record<string, string> = {};
const LONGEST = [
  "GET /keys/:id",
  "GET /licenses/:id",
  "GET /accounts/:id",
  "GET /accounts/:id/erasure",
  "GET /machines/:id",
  "GET /models/:name",
  "GET /notices/:id",
  "GET /access/operators/:name",
  "GET /access/tokens/:name",
];

test("The crawl has every page", () => {
  const others = PAGES.map(nameOf).filter((name) => name.includes(":"));
  expect(LONGEST.toSorted()).toEqual(others.toSorted());
});

describe("While there is nothing", () => {
  test.each(FIXED)("%s is whole", async (path) => {
    await examinePage(empty, { path, role: "admin", name: `empty${path.replaceAll("/", "-")}` });
  });

  test.each(["/overview", "/accounts", "/models", "/access"])("%s is whole for a viewer", async (path) => {
    await examinePage(empty, { path, role: "viewer", name: `viewer${path.replaceAll("/", "-")}` });
  });
});

describe("With the customers of a demo and the longest texts", () => {
  beforeAll(async () => {
    await addDemo(full.testDatabase, full.clock.now());
    await addLongest();
    await addDayOfLatency(full.database, full.clock.nowMs());
    await full.database.query(
      (sql) => sql`
        insert into starts (kind, id, version, at)
        select kind, nth, version, at::timestamptz
          from (values ('process', '1', '0.5.0', '2026-11-21T09:00Z'), ('process', '2', '0.6.0', '2026-11-22T13:44Z'),
                       ('database', '3', '7 01', '2026-11-21T01:00Z'), ('database', '4', '7 02', '2026-11-22T02:00Z'))
                 as start (kind, nth, version, at)`,
    );
    await countUse(full.database, { clock: full.clock, isStopping: () => false });
    await computeFigures(full.database, full);
  });

  test.each(FIXED)("%s is whole", async (path) => {
    await examinePage(full, { path, role: "admin" });
  });

  test.each(LONGEST)("%s is whole", async (route) => {
    const path = longest[route];
    if (path === undefined) throw new Error(`addLongest() sets no path for ${route}`);
    await examinePage(full, {
      path,
      role: "admin",
      name: route.replaceAll(/\W+/g, "-"),
    });
  });

  test("the page of a key with every action is whole", async () => {
    await examinePage(full, { path: `/keys/${(await full.issue()).id}`, role: "admin", name: "key" });
  });

  test("the page of a model that waits for its file is whole", async () => {
    await examinePage(full, { path: `/models/${await awaitFile(full)}`, role: "editor", name: "upload" });
  });

  test("the second page of a list is whole", async () => {
    const client = createConsoleClient(full);
    const { cookie } = await client.logIn("viewer");
    const { text } = await client.send("/audit", { cookie });
    const path = linkTo(text, "Next page");
    expect(path).toStartWith("/audit?");
    await examinePage(full, { path, role: "viewer", name: "audit-second-page" });
  });

  test.each([
    "/keys?sort=most_used&state=active&search=demo",
    "/keys?search=nobody",
    "/keys?account=nobody@example.org",
    "/activity?by=reason&step=day",
    "/activity?by=endpoint&step=month",
    "/usage?month=2026-10",
    "/health?endpoint=analytics",
    // It has few rows: axe takes a minute for those of an endpoint that is used all day.
    "/health/latency?endpoint=models&at=2026-11-22T13:45:00Z",
    "/search?q=demo",
    "/search?q=nobody",
  ])("%s is whole", async (path) => {
    await examinePage(full, { path, role: "viewer" });
  });

  test.each([
    ["/nothing", 404],
    [`/keys/key_${"0".repeat(32)}`, 404],
    ["/usage?month=2026-13", 400],
    ["/keys/issue", 403],
  ])("%s, which is refused with %d, is whole", async (path, refused) => {
    await examinePage(full, { path, role: "viewer", refused });
  });

  test.each(["/enter", "/enter?ended", "/enter?done=logged-out", "/enter?fresh=1&to=/console/access"])(
    "%s is whole",
    async (path) => {
      await examinePage(full, { path });
    },
  );
});

/** The longest values that a license or a tier can have. */
function longestValues(of: string): Entitlements {
  const texts = { a: "x".repeat(1_000), b: "\u0645".repeat(490), c: `"${"y, ".repeat(310)}` };
  const numbers = Array.from({ length: 29 }, (_, n) => [`${of}_${n}`, n * 1_000]);
  return { ...Object.fromEntries(numbers), ...texts };
}

/** Adds one of each thing with the longest and the most hostile texts, and sets the paths of their pages. */
async function addLongest(): Promise<void> {
  const { database, clock } = full;
  const now = clock.now();
  const key = await full.issue({
    email: `${"a".repeat(60)}@${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.example`,
    name: "é".repeat(200),
    organization: TURNING.repeat(3),
    externalId: `"${"x".repeat(240)}`,
    expiresAt: new Date(now.getTime() + 86_400_000),
    monthlyLimit: 1,
    ownFeatures: Object.fromEntries(
      Array.from({ length: 32 }, (_, n) => [
        `${"feature_".repeat(7)}${n}`,
        n % 3 === 0 ? { granted: false } : { granted: true, until: "2027-06-30T23:59:59Z" },
      ]),
    ),
    ownEntitlements: longestValues("own"),
  });
  for (const tier of ["research", "enterprise"] as const)
    orThrow(
      await changeTier(createLicenseChanges(database), {
        ...{ tier, change: longestValues("tier"), now },
        actor: { kind: "operator", name: "olga" },
      }),
    );
  await setPlaces(database, key.licenseUuid, { maxMachines: 2, seatMinutes: 30 });
  const license = { licenseUuid: key.licenseUuid, keyUuid: uuidOf(key) };
  const machine = await placeMachine(database, license, "with a very long name ".repeat(6));
  await placeMachine(database, await licenseWith(database, { maxMachines: 5 }), "one");
  const actor = { kind: "operator", name: "o".repeat(64), reason: TURNING.repeat(30) } as const;
  await suspendKey(createLicenseChanges(database), uuidOf(key), { actor, now });
  await database.query(
    (sql) => sql`
      insert into usage (license_id, month, used) values (${key.licenseUuid}::uuid, '2026-11-01', 9000000000000)`,
  );
  const model = "a_very_long_name_of_a_model.".repeat(7).slice(0, 195);
  for (const version of ["1.0.0", "1.1.0"])
    await addNewModel(database, { name: model, version, sizeMb: 1_234.5 }, { now });
  const [operator, token] = ["o".repeat(64), "t".repeat(64)];
  const sources = Array.from({ length: 32 }, (_, n) => `2001:db8:ffff:ffff:ffff:ffff:ffff:${n}`);
  await full.token({ name: token, sources, restriction: { tiers: ["free", "research"], mode: "live" } });
  await database.query(
    (sql) => sql`
      insert into operators (name, role, created_at, last_seen_at)
      values (${operator}, 'editor', ${now}::timestamptz, ${now}::timestamptz)`,
  );
  Object.assign(longest, {
    "GET /notices/:id": `/notices/${await makeSampleNotice(full)}`,
    "GET /keys/:id": `/keys/${key.id}`,
    "GET /licenses/:id": `/licenses/${toId("lic", key.licenseUuid)}`,
    "GET /accounts/:id": `/accounts/${key.userId}`,
    "GET /accounts/:id/erasure": `/accounts/${key.userId}/erasure`,
    "GET /machines/:id": `/machines/${toId("mch", machine)}`,
    "GET /models/:name": `/models/${model}`,
    "GET /access/operators/:name": `/access/operators/${operator}`,
    "GET /access/tokens/:name": `/access/tokens/${token}`,
  });
}
