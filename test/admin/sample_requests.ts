/** A sample request for each route of the API, which succeeds with a token of the route's scope. */

import { hash, randomUUID } from "node:crypto";
import { ROUTES } from "../../src/admin/things.ts";
import { DAY_MS, monthOf, toDay } from "../../src/base/calendar.ts";
import { newUuid, parseId, toId } from "../../src/base/ids.ts";
import { type IssuedKey, type IssueRequest, revokeKey, suspendKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { addModel, parseNewModel } from "../../src/models/mod.ts";
import { listNotices, makeNotices, mute } from "../../src/notices/mod.ts";
import { addActivity } from "../../src/usage/activity/mod.ts";
import { computeFigures } from "../../src/usage/figures/mod.ts";
import { addLatency } from "../../src/usage/latency/mod.ts";
import { countUse } from "../../src/usage/mod.ts";
import type { TestAdmin } from "../support/admin.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { licenseWith, placeMachine, setEnd } from "../support/machines.ts";
import { addNewModel, newModel } from "../support/new_model.ts";
import { firstReport } from "../usage/reports/report_kit.ts";

/** The last computation of figures for a sample. */
let computing = Promise.resolve();

export interface SampleRequest {
  /** Below `/admin/v1`. */
  readonly path: string;
  readonly body?: Readonly<Record<string, unknown>>;
  /** A body that is sent as it is. */
  readonly file?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

type Make = (admin: TestAdmin) => SampleRequest | Promise<SampleRequest>;

/** The requests by method and path, as `ROUTES` writes them. Each call makes the data that its request needs. */
const SAMPLES: Readonly<Record<string, Make>> = {
  "GET /whoami": () => ({ path: "/whoami" }),
  "GET /openapi.json": () => ({ path: "/openapi.json" }),

  "GET /keys": () => ({ path: "/keys?limit=2" }),
  "POST /keys": () => ({
    path: "/keys",
    body: {
      ...{ email: `${randomUUID()}@example.org`, tier: "free", external_id: randomUUID() },
      ...{ max_machines: 30, seat_minutes: 15 },
    },
    headers: newIdempotencyKey(),
  }),
  "POST /keys/find": async (admin) => ({
    path: "/keys/find",
    body: { api_key: (await admin.issue()).apiKey },
  }),
  "GET /keys/:id": async (admin) => ({ path: `/keys/${(await admin.issue()).id}` }),
  "GET /keys/:id/why": async (admin) => ({ path: `/keys/${(await admin.issue()).id}/why` }),
  "GET /keys/:id/usage": async (admin) => ({ path: `/keys/${(await admin.issue()).id}/usage` }),
  "POST /keys/:id/license": async (admin) => ({
    path: `/keys/${(await admin.issue()).id}/license`,
    body: { days: 30, fingerprint: "host-7", nonce: "n-1" },
  }),
  "POST /keys/:id/bundle": async (admin) => ({
    path: `/keys/${(await admin.issue()).id}/bundle`,
    body: { days: 30, fingerprint: "host-7", models: [] },
  }),
  "POST /keys/:id/suspend": async (admin) => ({
    path: `/keys/${(await admin.issue()).id}/suspend`,
    body: { reason: "unpaid" },
  }),
  "POST /keys/:id/resume": async (admin) => ({
    path: `/keys/${(await issueSuspended(admin)).id}/resume`,
    body: {},
  }),
  "POST /keys/:id/rotate": async (admin) => ({
    path: `/keys/${(await admin.issue()).id}/rotate`,
    body: { overlap: "24h" },
    headers: newIdempotencyKey(),
  }),
  "POST /keys/:id/replace": async (admin) => ({
    path: `/keys/${(await issueRevoked(admin)).id}/replace`,
    body: { reason: "stolen" },
    headers: newIdempotencyKey(),
  }),
  "POST /keys/:id/revoke": async (admin) => ({
    path: `/keys/${(await admin.issue()).id}/revoke`,
    body: { reason: "stolen" },
  }),

  "GET /licenses/:id": async (admin) => ({ path: `/licenses/${licenseOf(await admin.issue())}` }),
  "PATCH /licenses/:id": async (admin) => ({
    path: `/licenses/${licenseOf(await admin.issue())}`,
    body: { tier: "commercial", monthly_limit: 5, max_machines: 30, reason: "upgrade" },
  }),
  "POST /licenses/:id/move": async (admin) => ({
    path: `/licenses/${licenseOf(await admin.issue())}/move`,
    body: { to: `${randomUUID()}@example.org`, new_account: true, reason: "sold" },
  }),

  "GET /accounts": () => ({ path: "/accounts?limit=2" }),
  "GET /accounts/:id": async (admin) => ({ path: `/accounts/${(await admin.issue()).userId}` }),
  "GET /accounts/:id/usage": async (admin) => ({
    path: `/accounts/${(await admin.issue()).userId}/usage?month=2026-11`,
  }),
  "PATCH /accounts/:id": async (admin) => ({
    path: `/accounts/${(await admin.issue()).userId}`,
    body: { name: "Ada" },
  }),
  "POST /accounts/:id/renew": async (admin) => ({
    path: `/accounts/${(await admin.issue({ expiresAt: new Date("2030-01-01T00:00:00Z") })).userId}/renew`,
    body: { reason: "paid for another year" },
  }),
  "POST /accounts/:id/erase": async (admin) => ({
    path: `/accounts/${(await issueRevoked(admin)).userId}/erase`,
    body: { reason: "request of 3 March" },
  }),

  "GET /machines": async (admin) => {
    await activateSample(admin);
    return { path: "/machines?state=active&limit=2" };
  },
  "GET /machines/:id": async (admin) => ({ path: `/machines/${await activateSample(admin)}` }),
  "POST /machines/release": async (admin) => ({
    path: "/machines/release",
    body: { ids: [await activateSample(admin)], reason: "not seen for a month" },
  }),
  "POST /machines/:id/free": async (admin) => {
    const id = await activateSample(admin);
    await setEnd(admin.database, parseId("mch", id) ?? "", { signed_until: 60 });
    return { path: `/machines/${id}/free`, body: { reason: "the file is lost" } };
  },
  "POST /machines/:id/release": async (admin) => ({
    path: `/machines/${await activateSample(admin)}/release`,
    body: { reason: "the laptop was lost" },
  }),

  "GET /notices": async (admin) => {
    await makeSampleNotice(admin);
    return { path: "/notices?kind=quota_used&limit=2" };
  },
  "GET /notices/muted": async (admin) => {
    const { licenseUuid } = await admin.issue();
    await mute(admin.database, { licenseUuid }, { actor: ACTOR, now: admin.clock.now() });
    return { path: "/notices/muted?limit=2" };
  },
  "POST /notices/mute": async (admin) => ({
    path: "/notices/mute",
    body: { account_id: (await admin.issue()).userId, reason: "our own test" },
  }),
  "POST /notices/unmute": async (admin) => ({
    path: "/notices/unmute",
    body: { license_id: toId("lic", (await admin.issue()).licenseUuid), reason: "it is a customer" },
  }),
  "GET /notices/:id": async (admin) => ({ path: `/notices/${await makeSampleNotice(admin)}` }),
  "POST /notices/:id/done": async (admin) => ({
    path: `/notices/${await makeSampleNotice(admin)}/done`,
    body: { reason: "the customer knows" },
  }),
  "POST /notices/:id/remind": async (admin) => ({
    path: `/notices/${await makeSampleNotice(admin)}/remind`,
    body: { on: inAWeek(admin), reason: "the customer is away" },
  }),

  "GET /tiers": () => ({ path: "/tiers" }),
  "PATCH /tiers/:tier": () => ({
    path: "/tiers/enterprise",
    body: { entitlements: { [`value_${randomUUID().slice(0, 8)}`]: 8 }, reason: "the price list of January" },
  }),

  "GET /usage": () => ({ path: "/usage?limit=2" }),
  "GET /usage/daily": async ({ database, clock }) => {
    await countUse(database, { clock, isStopping: () => false });
    return { path: "/usage/daily?by=tier" };
  },
  "POST /usage/reports": async (admin) => ({
    path: "/usage/reports?dry_run=false",
    file: firstReport((await admin.issue()).licenseUuid, admin.clock.now()),
  }),
  "GET /figures": async ({ database, clock }) => {
    // One after the other, as services compute them.
    computing = computing.then(() => computeFigures(database, { clock }));
    await computing;
    return { path: "/figures" };
  },

  "GET /activity": async ({ database, clock }) => {
    const hourMs = clock.nowMs() - (clock.nowMs() % 3_600_000);
    const answer = { endpoint: "validate", code: "INVALID_KEY", reason: "unknown" };
    await addActivity(database, [{ hourMs, ...answer, count: 7 }]);
    return { path: "/activity?by=reason" };
  },

  "GET /health/latency": async ({ database, clock }) => {
    const atMs = clock.nowMs() - (clock.nowMs() % 300_000);
    const count = { endpoint: "validate", refused: 1, failed: 0, buckets: [7, 2] };
    await addLatency(database, [{ atMs, count }], { processUuid: newUuid() });
    return { path: "/health/latency" };
  },

  "GET /models": () => ({ path: "/models" }),
  "POST /models": () => ({ path: "/models", body: toFields(newModel({ name: newName() })) }),
  "GET /models/:name": async (admin) => ({ path: `/models/${await registerModel(admin)}` }),
  "DELETE /models/:name": async (admin) => ({ path: `/models/${await registerModel(admin)}` }),
  "PUT /models/:name/:version/file": async (admin) => {
    const path = `/models/${await awaitFile(admin)}/1.0.0/file`;
    return { path, file: "weights", headers: { "X-Checksum-SHA256": hash("sha256", "weights") } };
  },
  "POST /models/:name/:version/retire": async (admin) => ({
    path: `/models/${await registerModel(admin)}/1.0.0/retire`,
    body: {},
  }),

  "GET /audit": () => ({ path: "/audit" }),
  "GET /status": () => ({ path: "/status" }),
};

/** The routes that have no sample request, and the sample requests that have no route. */
export function unmatched(): { readonly routes: string[]; readonly samples: string[] } {
  const routes = ROUTES.map(nameOf);
  const samples = Object.keys(SAMPLES);
  return {
    routes: routes.filter((name) => !samples.includes(name)),
    samples: samples.filter((name) => !routes.includes(name)),
  };
}

export function nameOf({ method, path }: { readonly method: string; readonly path: string }): string {
  return `${method} ${path}`;
}

/** Makes the sample request of a route, and the data that it needs. */
export async function makeSample(
  admin: TestAdmin,
  route: { readonly method: string; readonly path: string },
): Promise<SampleRequest> {
  const make = SAMPLES[nameOf(route)];
  if (make === undefined) throw new Error(`${nameOf(route)} has no row in test/admin/sample_requests.ts`);
  return await make(admin);
}

export function newIdempotencyKey(): Record<string, string> {
  return { "Idempotency-Key": randomUUID() };
}

export async function issueSuspended(admin: TestAdmin): Promise<IssuedKey> {
  const key = await admin.issue();
  orThrow(
    await suspendKey(createLicenseChanges(admin.database), uuidOf(key), {
      actor: ACTOR,
      now: admin.clock.now(),
    }),
  );
  return key;
}

export async function issueRevoked(
  admin: TestAdmin,
  request: Partial<IssueRequest> = {},
): Promise<IssuedKey> {
  const key = await admin.issue(request);
  const by = { actor: ACTOR, now: admin.clock.now() };
  orThrow(await revokeKey(createLicenseChanges(admin.database), { uuid: uuidOf(key) }, by));
  return key;
}

/** Activates a machine of a new license, and returns its id. */
export async function activateSample({ database }: TestAdmin): Promise<string> {
  const license = await licenseWith(database, { maxMachines: 1 });
  return toId("mch", await placeMachine(database, license, "one"));
}

/** Makes a notice of a new license that has used its quota up, and returns its id. */
export async function makeSampleNotice(admin: TestAdmin): Promise<string> {
  const { database, clock } = admin;
  const { licenseUuid } = await admin.issue({ monthlyLimit: 10 });
  const now = clock.now();
  await database.query(
    (sql) => sql`
      insert into usage (license_id, month, used) values (${licenseUuid}::uuid, ${monthOf(now.getTime()).firstDay}::date, 10)`,
  );
  await makeNotices(
    { database, clock, isStopping: () => false },
    { days: [30, 7, 1], shares: [80, 100], refusalsAnHour: 100 },
  );
  const [notice] = await listNotices(database, { now, filter: { licenseUuid } });
  return notice?.id ?? "";
}

/** Returns the day in a week. */
export function inAWeek({ clock }: TestAdmin): string {
  return toDay(new Date(clock.nowMs() + 7 * DAY_MS));
}

export async function registerModel(admin: TestAdmin): Promise<string> {
  const name = newName();
  await addNewModel(admin.database, { name }, { now: admin.clock.now() });
  return name;
}

/** Adds version 1.0.0 of a model that waits for its file, and returns its name. */
export async function awaitFile(admin: TestAdmin, name = newName()): Promise<string> {
  const awaited = orThrow(parseNewModel(newModel({ name, downloadUrl: null, checksum: null }), BRAND));
  orThrow(await addModel(admin.database, awaited, { actor: ACTOR, now: admin.clock.now() }));
  return name;
}

export function newName(): string {
  return `model-${randomUUID()}`;
}

/** Returns a model's fields with the names that JSON has: `nFeatures` is `n_features`. */
function toFields(model: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(model).map(([name, value]) => [
      name === "downloadUrl" ? "url" : name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  );
}

function licenseOf({ licenseUuid }: IssuedKey): string {
  return toId("lic", licenseUuid);
}
