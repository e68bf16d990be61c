/** Every code that the OpenAPI document lists for a route is provoked here, and every answer must be as documented. */

import { beforeAll, describe, expect, test } from "bun:test";
import { randomUUID } from "node:crypto";
import { renderCursor } from "../../src/admin/frame/api/cursor.ts";
import { codesOf } from "../../src/admin/frame/api/document_facts.ts";
import type { Route } from "../../src/admin/frame/api/route.ts";
import { ROUTES } from "../../src/admin/things.ts";
import { newUuid, parseId, toId } from "../../src/base/ids.ts";
import type { Code } from "../../src/base/refusal.ts";
import { type Database, DatabaseUnavailable } from "../../src/database/mod.ts";
import { findLicense } from "../../src/licensing/mod.ts";
import { statusOf, toWireCode } from "../../src/wire/mod.ts";
import { type CallOptions, startAdmin, type TestAdmin } from "../support/admin.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { createJournal, firstReport, OTHER_JOURNAL, parsed } from "../usage/reports/report_kit.ts";
import { createDocumentedCall, type DocumentedCall } from "./documented_call.ts";
import { issueRevoked, makeSample, makeSampleNotice, nameOf, newIdempotencyKey } from "./sample_requests.ts";

/** A request that must be refused with the code. Parts that it leaves out are as in the sample request. */
interface Refused extends CallOptions {
  readonly path?: string;
  /** By default that of the route. */
  readonly method?: string;
  readonly on?: TestAdmin;
}

const admin = useAdmin();
/** Another listener on the same database, with statements that fail. */
const failing = (error: Error) =>
  useForAll(() => {
    const database: Database = { ...admin.database, query: () => Promise.reject(error) };
    return startAdmin({ on: admin.testDatabase, clock: admin.clock, admin: { database } });
  });
const broken = failing(new Error("A fault"));
/** Its database does not answer. */
const lost = failing(new DatabaseUnavailable("ECONNREFUSED"));
let call: DocumentedCall;
/** A token whose requests of a minute are used up when a test needs it. */
let exhausted: string;

beforeAll(async () => {
  call = await createDocumentedCall(admin);
  exhausted = await admin.token();
});

type Provoke = (sample: Sample, route: Route) => Refused | Promise<Refused>;
type Sample = Awaited<ReturnType<typeof makeSample>>;

/** How every route is made to answer a code. */
const PROVOKED: Partial<Readonly<Record<Code, Provoke>>> = {
  INVALID_REQUEST: ({ path }) => ({ path: `${path}${path.includes("?") ? "&" : "?"}colour=red` }),
  INVALID_TOKEN: () => ({ token: `svc_op_${"0".repeat(48)}` }),
  NOT_ALLOWED: async () => ({ token: await admin.token({ sources: ["192.0.2.0/24"] }) }),
  METHOD_NOT_ALLOWED: () => ({ method: "PUT" }),
  MISDIRECTED_REQUEST: () => ({ headers: { host: "licenses.example" } }),
  RATE_LIMIT_EXCEEDED: async () => {
    while ((await admin.call("GET", "/whoami", { token: exhausted })).status !== 429);
    return { token: exhausted };
  },
  SERVER_ERROR: async () => ({ on: broken, token: await admin.token() }),
  SERVICE_UNAVAILABLE: async () => ({ on: lost, token: await admin.token() }),
  SCOPE_REQUIRED: async (_, { scope }) => ({
    token: await admin.token({ scopes: [scope === "status:read" ? "audit:read" : "status:read"] }),
  }),
  PAYLOAD_TOO_LARGE: () => ({ body: { reason: "x".repeat(70_000) } }),
  UNSUPPORTED_MEDIA_TYPE: () => ({ body: "", headers: { "content-encoding": "gzip" } }),
  EXPECTATION_FAILED: () => ({ body: new ReadableStream(), headers: { expect: "100-Continue" } }),
  KEY_NOT_FOUND: ({ path }) => ({ path: path.replace(/(?<=key_)[0-9a-f]{32}/, "0".repeat(32)) }),
  NOT_FOUND: ({ path }) => ({ path: path.replace(/(?<=(lic|usr|mch|ntc)_)[0-9a-f]{32}/, "0".repeat(32)) }),
  CLAIM_MISMATCH: async (sample, route) => {
    await call(route, sample.path, sample);
    return { body: { ...sample.body, reason: "another" } };
  },
};

/** How one route is made to answer a code, in addition to or in place of the above. */
const PROVOKED_BY_ROUTE: Readonly<Record<string, Partial<Readonly<Record<Code, Provoke>>>>> = {
  "POST /keys": {
    CLAIM_MISMATCH: async (sample, route) => {
      await call(route, sample.path, sample);
      return { body: { ...sample.body, name: "another" } };
    },
    ALREADY_EXISTS: twice,
    CONFLICT: async (sample, route) => {
      await call(route, sample.path, sample);
      return {
        headers: newIdempotencyKey(),
        body: { ...sample.body, external_id: "other", name: "another" },
      };
    },
  },
  "POST /keys/find": {
    KEY_NOT_FOUND: () => ({ body: { api_key: `svc_live_${"0".repeat(48)}` } }),
  },
  "POST /keys/:id/suspend": { CONFLICT: twice },
  "POST /keys/:id/resume": { CONFLICT: twice },
  "POST /keys/:id/revoke": { CONFLICT: twice },
  "POST /keys/:id/rotate": { CONFLICT: twice },
  "POST /keys/:id/replace": { CONFLICT: twice },
  "POST /keys/:id/license": {
    CONFLICT: async () => {
      const { id } = await admin.issue();
      await admin.call("POST", `/keys/${id}/suspend`, { body: {} });
      return { path: `/keys/${id}/license` };
    },
  },
  "POST /keys/:id/bundle": {
    CONFLICT: async () => {
      const { id } = await admin.issue();
      await admin.call("POST", `/keys/${id}/suspend`, { body: {} });
      return { path: `/keys/${id}/bundle` };
    },
  },
  "POST /machines/:id/release": { CONFLICT: twice },
  "POST /machines/:id/free": { CONFLICT: twice },
  "GET /notices": { NOT_FOUND: () => ({ path: "/notices?account=nobody@example.org" }) },
  "POST /notices/mute": { NOT_FOUND: () => ({ body: { account_id: toId("usr", newUuid()) } }) },
  "POST /notices/unmute": { NOT_FOUND: () => ({ body: { license_id: toId("lic", newUuid()) } }) },
  "POST /notices/:id/done": { CONFLICT: withdrawn },
  "POST /notices/:id/remind": { CONFLICT: withdrawn },
  "GET /machines": { NOT_FOUND: () => ({ path: "/machines?account=nobody@example.org" }) },
  "GET /openapi.json": { PRECONDITION_FAILED: () => ({ headers: { "if-match": '"other"' } }) },
  "GET /keys": { NOT_FOUND: () => ({ path: `/keys?account=${toId("usr", newUuid())}` }) },
  "GET /audit": {
    NOT_FOUND: () => ({ path: "/audit?account=nobody@example.org" }),
    CURSOR_EXPIRED: () => ({ path: `/audit?after=${ELSEWHERE}` }),
  },
  "POST /licenses/:id/move": { CONFLICT: twice },
  "PATCH /accounts/:id": {
    ALREADY_EXISTS: async () => {
      const email = `${randomUUID()}@example.org`;
      await admin.issue({ email });
      return { body: { email } };
    },
    CONFLICT: async () => {
      const path = `/accounts/${(await issueRevoked(admin)).userId}`;
      await admin.call("POST", `${path}/erase`, { body: {} });
      return { path };
    },
  },
  "POST /accounts/:id/erase": {
    CONFLICT: async () => ({ path: `/accounts/${(await admin.issue()).userId}/erase` }),
  },
  "POST /models": {
    NOT_FOUND: ({ body }) => ({
      body: { ...body, requires_license: "commercial", owner: toId("usr", newUuid()) },
    }),
    ALREADY_EXISTS: twice,
    CONFLICT: async (sample, route) => {
      await call(route, sample.path, sample);
      const { userId: owner } = await admin.issue();
      return { body: { ...sample.body, version: "2", requires_license: "commercial", owner } };
    },
  },
  "GET /models/:name": { NOT_FOUND: ({ path }) => ({ path: `${path}-other` }) },
  "DELETE /models/:name": { NOT_FOUND: ({ path }) => ({ path: `${path}-other` }) },
  "PUT /models/:name/:version/file": {
    METHOD_NOT_ALLOWED: () => ({ method: "POST" }),
    PRECONDITION_FAILED: () => ({ headers: { "if-match": "*" } }),
    PAYLOAD_TOO_LARGE: () => ({ file: "x".repeat(1_000_001) }),
    NOT_FOUND: ({ path }) => ({ path: path.replace("1.0.0", "3.0.0") }),
    CONFLICT: async (sample) => {
      await admin.call("POST", sample.path.replace("file", "retire"), { body: {} });
      return {};
    },
  },
  "POST /usage/reports": {
    PAYLOAD_TOO_LARGE: () => ({ file: "x".repeat(32 * 1024 * 1024 + 2) }),
    NOT_FOUND: () => ({ file: firstReport(newUuid(), admin.clock.now()) }),
    CONFLICT: async (sample) => {
      await admin.call("POST", sample.path, sample);
      const { licenseUuid } = await parsed(sample.file ?? "");
      const journal = OTHER_JOURNAL;
      return { file: createJournal(licenseUuid, { journal }).next() };
    },
  },
  "POST /models/:name/:version/retire": {
    NOT_FOUND: ({ path }) => ({ path: path.replace("1.0.0", "3.0.0") }),
    CONFLICT: twice,
  },
  "PATCH /tiers/:tier": { NOT_FOUND: () => ({ path: "/tiers/gold" }) },
  "PATCH /licenses/:id": {
    ALREADY_EXISTS: async () => {
      const { licenseUuid } = await admin.issue({ externalId: `taken-${newUuid()}` });
      const license = await findLicense(admin.database, licenseUuid, { now: admin.clock.now() });
      return { body: { external_id: license?.externalId } };
    },
    CONFLICT: async () => {
      const { licenseUuid } = await issueRevoked(admin);
      return { path: `/licenses/${toId("lic", licenseUuid)}` };
    },
  },
};

/** A position in the audit log of another database. */
const ELSEWHERE = renderCursor(
  { name: "audit", filters: {} },
  { at: new Date(0), position: `${"0".repeat(32)}.7.7` },
);

/** Sends the sample request, and returns it for a second time: it is another request, and not a repetition. */
async function twice(sample: Sample, route: Route): Promise<Refused> {
  await call(route, sample.path, sample);
  return { headers: newIdempotencyKey() };
}

/** The limit of the license is raised, and the upkeep withdraws the notice of the sample request. */
async function withdrawn({ path }: Sample): Promise<Refused> {
  const uuid = parseId("ntc", path.split("/")[2] ?? "") ?? "";
  await admin.database.query(
    (sql) => sql`
      update licenses set monthly_limit = 1000 where id = (select license_id from notices where id = ${uuid}::uuid)`,
  );
  await makeSampleNotice(admin);
  return {};
}

for (const route of ROUTES) {
  describe(nameOf(route), () => {
    test("answers its sample request as documented", async () => {
      const sample = await makeSample(admin, route);
      const { status } = await call(route, sample.path, sample);
      expect(status).toBe(route.operation.success.status ?? 200);
    });

    for (const code of codesOf(route)) {
      // It takes a second, and depends on no route.
      if (code === "EXPECTATION_FAILED" && nameOf(route) !== "POST /keys") continue;
      test(`answers ${code} as documented`, async () => {
        const provoke = PROVOKED_BY_ROUTE[nameOf(route)]?.[code] ?? PROVOKED[code];
        if (provoke === undefined) throw new Error(`No row provokes ${nameOf(route)} ${code}`);
        const sample = await makeSample(admin, route);
        const refused = await provoke(sample, route);
        const headers = { ...sample.headers, ...refused.headers };
        const answer = await call(route, refused.path ?? sample.path, { ...sample, ...refused, headers });
        expect({ status: answer.status, code: answer.body.code }).toEqual({
          status: statusOf(code),
          code: toWireCode(code),
        });
      });
    }
  });
}
