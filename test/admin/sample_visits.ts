/** A sample visit for each route of the console. */
import { hash, randomUUID } from "node:crypto";
import { newUuid, parseId, toId } from "../../src/base/ids.ts";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { findRenewable } from "../../src/licensing/mod.ts";
import { mute } from "../../src/notices/mod.ts";
import { listSessions, loginOperator } from "../../src/operators/mod.ts";
import { enter } from "../operators/login.ts";
import type { TestAdmin } from "../support/admin.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { setEnd } from "../support/machines.ts";
import { firstReport } from "../usage/reports/report_kit.ts";
import {
  activateSample,
  awaitFile,
  inAWeek,
  issueRevoked,
  issueSuspended,
  makeSampleNotice,
  nameOf,
  newName,
  registerModel,
} from "./sample_requests.ts";

export interface SampleVisit {
  /** Below `/console`. */
  readonly path: string;
  readonly form?: Readonly<Record<string, string>>;
  /** A body that is sent as it is. */
  readonly file?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

type MakeVisit = (admin: TestAdmin) => SampleVisit | Promise<SampleVisit>;

const FEATURE = { feature: "custom_models", decided: "granted", until: "2031-01-31" };
const VALUES = { own_entitlements: "channels=64, region=eu" };

/** The forms of the console, by method and path, as `CONSOLE_ROUTES` writes them. A role that may send it succeeds. */
export const CONSOLE_FORMS: Readonly<Record<string, MakeVisit>> = {
  "POST /keys/issue": () => ({
    path: "/keys/issue",
    form: { email: "grace@example.org", tier: "free", mode: "live", never: "yes" },
  }),
  "POST /keys/:id/suspend": async (admin) => onKey(await admin.issue(), "suspend"),
  "POST /keys/:id/resume": async (admin) => onKey(await issueSuspended(admin), "resume"),
  "POST /keys/:id/renew": async (admin) =>
    onKey(await admin.issue(), "renew", { last_day: "2031-01-31", shorten: "yes" }),
  "POST /keys/:id/tier": async (admin) => onKey(await admin.issue(), "tier", { tier: "commercial" }),
  "POST /keys/:id/limit": async (admin) => onKey(await admin.issue(), "limit", { monthly_limit: "9" }),
  "POST /keys/:id/machines": async (admin) =>
    onKey(await admin.issue(), "machines", { max_machines: "30", seat_minutes: "15" }),
  "POST /keys/:id/offline": async (admin) =>
    onKey(await admin.issue(), "offline", { max_offline_days: "14" }),
  "POST /keys/:id/external-id": async (admin) =>
    onKey(await admin.issue(), "external-id", { external_id: randomUUID() }),
  "POST /keys/:id/updates": async (admin) =>
    onKey(await admin.issue(), "updates", { updates_until: "2031-01-31", shorten: "yes" }),
  "POST /keys/:id/features": async (admin) => onKey(await admin.issue(), "features", FEATURE),
  "POST /keys/:id/values": async (admin) => onKey(await admin.issue(), "values", VALUES),
  "POST /keys/:id/move": async (admin) =>
    onKey(await admin.issue(), "move", { to: `${randomUUID()}@example.org`, new_account: "yes" }),
  "POST /licenses/:id/renew": async (admin) =>
    onLicense(await admin.issue(), "renew", { last_day: "2031-01-31", shorten: "yes" }),
  "POST /licenses/:id/tier": async (admin) => onLicense(await admin.issue(), "tier", { tier: "commercial" }),
  "POST /licenses/:id/limit": async (admin) =>
    onLicense(await admin.issue(), "limit", { monthly_limit: "9" }),
  "POST /licenses/:id/machines": async (admin) =>
    onLicense(await admin.issue(), "machines", { max_machines: "30", seat_minutes: "15" }),
  "POST /licenses/:id/offline": async (admin) =>
    onLicense(await admin.issue(), "offline", { max_offline_days: "14" }),
  "POST /licenses/:id/updates": async (admin) =>
    onLicense(await admin.issue(), "updates", { updates_until: "2031-01-31", shorten: "yes" }),
  "POST /licenses/:id/features": async (admin) => onLicense(await admin.issue(), "features", FEATURE),
  "POST /licenses/:id/values": async (admin) => onLicense(await admin.issue(), "values", VALUES),
  "POST /licenses/:id/external-id": async (admin) =>
    onLicense(await admin.issue(), "external-id", { external_id: randomUUID() }),
  "POST /licenses/:id/move": async (admin) =>
    onLicense(await admin.issue(), "move", { to: `${randomUUID()}@example.org`, new_account: "yes" }),
  "POST /keys/:id/rotate": async (admin) => onKey(await admin.issue(), "rotate", { overlap_days: "7" }),
  "POST /keys/:id/replace": async (admin) => onKey(await issueRevoked(admin), "replace"),
  "POST /keys/:id/license": async (admin) => onKey(await admin.issue(), "license", { days: "30" }),
  "POST /keys/:id/bundle": async (admin) => onKey(await admin.issue(), "bundle", { days: "30" }),
  "POST /keys/:id/revoke": async (admin) => {
    const key = await admin.issue();
    return onKey(key, "revoke", { repeat: key.apiKey.slice(-4) });
  },
  "POST /keys/many": async (admin) => onKeys(admin, ""),
  "POST /keys/many.csv": async (admin) => onKeys(admin, ".csv"),
  "POST /keys/many/suspend": async (admin) => onKeys(admin, "/suspend"),
  "POST /keys/many/resume": async (admin) => onKeys(admin, "/resume", {}, issueSuspended),
  "POST /keys/many/renew": async (admin) =>
    onKeys(admin, "/renew", { last_day: "2031-01-31", shorten: "yes" }),
  "POST /keys/many/tier": async (admin) => onKeys(admin, "/tier", { tier: "commercial" }),
  "POST /keys/many/limit": async (admin) => onKeys(admin, "/limit", { monthly_limit: "9" }),
  "POST /keys/many/offline": async (admin) => onKeys(admin, "/offline", { max_offline_days: "14" }),
  "POST /keys/many/machines": async (admin) => onKeys(admin, "/machines", { max_machines: "30" }),
  "POST /keys/many/updates": async (admin) =>
    onKeys(admin, "/updates", { updates_until: "2031-01-31", shorten: "yes" }),
  "POST /keys/many/features": async (admin) => onKeys(admin, "/features", FEATURE),
  "POST /keys/many/values": async (admin) => onKeys(admin, "/values", VALUES),
  "POST /keys/many/revoke": async (admin) => onKeys(admin, "/revoke", { repeat: "2" }),
  "POST /accounts/:id/change": async (admin) => ({
    path: `/accounts/${(await admin.issue()).userId}/change`,
    form: { name: "Grace", organization: "Compilers", reason: "as agreed" },
  }),
  "POST /accounts/:id/email": async (admin) => ({
    path: `/accounts/${(await admin.issue()).userId}/email`,
    form: { email: `${randomUUID()}@example.org`, reason: "another domain" },
  }),
  "POST /accounts/:id/renew": async (admin) => {
    const expiresAt = new Date(admin.clock.nowMs() + 86_400_000);
    const { userId } = await admin.issue({ expiresAt });
    const { version } = await findRenewable(admin.database, parseId("usr", userId) ?? "", {
      now: admin.clock.now(),
    });
    return { path: `/accounts/${userId}/renew`, form: { version, reason: "paid" } };
  },
  "POST /accounts/:id/erasure/erase": async (admin) => {
    const email = `${randomUUID()}@example.org`;
    const { userId } = await admin.issue({ email });
    return { path: `/accounts/${userId}/erasure/erase`, form: { repeat: email, reason: "asked for" } };
  },
  "POST /machines/many": async (admin) => ({
    path: "/machines/many?open=release",
    form: { id: await activateSample(admin) },
  }),
  "POST /machines/many/release": async (admin) => ({
    path: "/machines/many/release",
    form: { id: await activateSample(admin), reason: "not seen for a month" },
  }),
  "POST /machines/:id/free": async (admin) => {
    const id = await activateSample(admin);
    await setEnd(admin.database, parseId("mch", id) ?? "", { signed_until: 60 });
    return { path: `/machines/${id}/free`, form: { reason: "the file is lost" } };
  },
  "POST /machines/:id/release": async (admin) => ({
    path: `/machines/${await activateSample(admin)}/release`,
    form: { reason: "the laptop was lost" },
  }),
  "POST /notices/:id/done": async (admin) => ({
    path: `/notices/${await makeSampleNotice(admin)}/done`,
    form: { reason: "the customer knows" },
  }),
  "POST /notices/:id/remind": async (admin) => ({
    path: `/notices/${await makeSampleNotice(admin)}/remind`,
    form: { on: inAWeek(admin), reason: "the customer is away" },
  }),
  "POST /notices/:id/mute": async (admin) => ({
    path: `/notices/${await makeSampleNotice(admin)}/mute`,
    form: { of: "license", reason: "our own test" },
  }),
  "POST /notices/muted/unmute": async (admin) => {
    const { licenseUuid } = await admin.issue();
    orThrow(await mute(admin.database, { licenseUuid }, { actor: ACTOR, now: admin.clock.now() }));
    return { path: "/notices/muted/unmute", form: { of: toId("lic", licenseUuid) } };
  },
  "POST /usage/reports": (admin) => onReport(admin, ""),
  "POST /usage/reports/import": (admin) => onReport(admin, "/import"),
  "POST /tiers/values": () => ({
    path: "/tiers/values",
    form: { tier: "commercial", entitlements: `of_${newUuid().replaceAll("-", "")}=1`, reason: "as agreed" },
  }),
  "POST /models/_add": () => ({
    path: "/models/_add",
    form: {
      ...{ name: newName(), version: "1.0.0", type: "SvcLDA", paradigm: "p300", requires_license: "free" },
      ...{ n_features: "8", n_classes: "2" },
    },
  }),
  "POST /models/:name/remove": async (admin) => ({
    path: `/models/${await registerModel(admin)}/remove`,
    form: { reason: "faulty" },
  }),
  "POST /models/:name/retire": async (admin) => ({
    path: `/models/${await registerModel(admin)}/retire`,
    form: { version: "1.0.0", reason: "faulty" },
  }),
  "POST /models/:name/add-version": async (admin) => ({
    path: `/models/${await registerModel(admin)}/add-version`,
    form: { version: "1.1.0" },
  }),
  "PUT /models/:name/:version/file": async (admin) => ({
    path: `/models/${await awaitFile(admin)}/1.0.0/file`,
    file: "weights",
    headers: { "X-Checksum-SHA256": hash("sha256", "weights") },
  }),
  "POST /access/sessions/:id/end": async (admin) => ({
    path: `/access/sessions/${await beginSession(admin)}/end`,
    form: {},
  }),
  "POST /access/operators/:name/role": async (admin) => ({
    path: `/access/operators/${await makeOperator(admin)}/role`,
    form: { role: "editor", reason: "as agreed" },
  }),
  "POST /access/operators/:name/remove": async (admin) => {
    const name = await makeOperator(admin);
    return { path: `/access/operators/${name}/remove`, form: { repeat: name } };
  },
  "POST /access/issue-token": () => ({
    path: "/access/issue-token",
    form: { name: newName(), scopes: "keys:read", reason: "for the shop" },
  }),
  "POST /access/tokens/:name/renew": async (admin) => {
    const name = newName();
    await admin.token({ name });
    return { path: `/access/tokens/${name}/renew`, form: { reason: "found in a log" } };
  },
  "POST /access/tokens/:name/resume": async (admin) => {
    const name = newName();
    await admin.token({ name });
    // As a restore leaves it.
    await admin.database.query((sql) => sql`update tokens set state = 'disabled' where name = ${name}`);
    return { path: `/access/tokens/${name}/resume`, form: { reason: "is trusted" } };
  },
  "POST /access/tokens/:name/revoke": async (admin) => {
    const name = newName();
    await admin.token({ name });
    return { path: `/access/tokens/${name}/revoke`, form: { repeat: name } };
  },
  "POST /search": () => ({ path: "/search", form: { q: "ada" } }),
  "POST /logout": () => ({ path: "/logout", form: {} }),
};

/** The pages of the console whose path has a part that is not fixed. */
const CONSOLE_PAGES: Readonly<Record<string, MakeVisit>> = {
  "GET /access/operators/:name": async (admin) => ({
    path: `/access/operators/${await makeOperator(admin)}`,
  }),
  "GET /access/tokens/:name": async (admin) => {
    const name = newName();
    await admin.token({ name });
    return { path: `/access/tokens/${name}` };
  },
  "GET /keys/:id": async (admin) => ({ path: `/keys/${(await admin.issue()).id}` }),
  "GET /licenses/:id": async (admin) => ({ path: `/licenses/${licenseOf(await admin.issue())}` }),
  "GET /accounts/:id": async (admin) => ({ path: `/accounts/${(await admin.issue()).userId}` }),
  "GET /accounts/:id/erasure": async (admin) => ({
    path: `/accounts/${(await admin.issue()).userId}/erasure`,
  }),
  "GET /machines/:id": async (admin) => ({ path: `/machines/${await activateSample(admin)}` }),
  "GET /notices/:id": async (admin) => ({ path: `/notices/${await makeSampleNotice(admin)}` }),
  "GET /models/:name": async (admin) => ({ path: `/models/${await registerModel(admin)}` }),
};

/** Makes the sample visit of a route of the console, and the data that it needs. Throws if a route has no sample. */
export async function makeVisit(
  admin: TestAdmin,
  route: { readonly method: string; readonly path: string },
): Promise<SampleVisit> {
  const make = CONSOLE_FORMS[nameOf(route)] ?? CONSOLE_PAGES[nameOf(route)];
  if (make !== undefined) return await make(admin);
  if (route.path.includes(":")) throw new Error(`sample_visits.ts has no visit for ${nameOf(route)}`);
  return { path: route.path };
}

async function onReport(admin: TestAdmin, step: string): Promise<SampleVisit> {
  const report = firstReport((await admin.issue()).licenseUuid, admin.clock.now());
  return { path: `/usage/reports${step}`, form: { report, reason: "from the mail" } };
}

/** Creates a viewer, and returns the name. */
async function makeOperator(admin: TestAdmin): Promise<string> {
  const name = newName();
  const by = { actor: ACTOR, now: admin.clock.now() };
  orThrow(await loginOperator(admin.database, { name, role: "viewer" }, by));
  return name;
}

/** Begins another session of the operator who logged in last, and returns its id. */
async function beginSession({ database, clock }: TestAdmin): Promise<string> {
  const [last] = await listSessions(database, { now: clock.now() });
  return (
    await enter(database, last?.operator ?? newName(), { role: last?.role ?? "viewer", now: clock.now() })
  ).id;
}

function licenseOf({ licenseUuid }: IssuedKey): string {
  return toId("lic", licenseUuid);
}

function onLicense(key: IssuedKey, action: string, form: SampleVisit["form"]): SampleVisit {
  return { path: `/licenses/${licenseOf(key)}/${action}`, form: { ...form, reason: "as agreed" } };
}

function onKey(key: IssuedKey, action: string, form: SampleVisit["form"] = {}): SampleVisit {
  return { path: `/keys/${key.id}/${action}`, form: { ...form, reason: "as agreed" } };
}

async function onKeys(
  admin: TestAdmin,
  action: string,
  form: SampleVisit["form"] = {},
  issue: (admin: TestAdmin) => Promise<IssuedKey> = () => admin.issue(),
): Promise<SampleVisit> {
  const keys = [await issue(admin), await issue(admin)];
  const id = keys.map((key) => key.id).join(" ");
  return { path: `/keys/many${action}`, form: { ...form, id, total: "2", reason: "as agreed" } };
}
