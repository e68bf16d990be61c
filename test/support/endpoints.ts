/**
 * The endpoints with a limit, each with a right request, for tests that check the same rule for every
 * endpoint.
 */
import type { LimitedEndpoint } from "../../src/wire/mod.ts";
import type { JsonResponse, TestService } from "./service.ts";

export interface Endpoint {
  /** `METHOD /path`, as in the names of tests. */
  readonly title: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly limit: LimitedEndpoint;
  /** The contract's limit in requests per minute. */
  readonly perMinute: number;
  /** The value of `Allow` for this path. */
  readonly allow: string;
  /** The fields of a right request without its key. */
  readonly fields: object;
  /** The most bytes of a body. */
  readonly bodyLimitBytes: number;
}

const POST_ONLY = { method: "POST", allow: "POST", fields: {} } as const;
const REPO_TOKEN = {
  path: "/v1/installer/repo-token",
  limit: "repo_token",
  perMinute: 20,
  allow: "GET, POST",
  fields: {},
} as const;

export const ENDPOINTS = {
  validate: make({ ...POST_ONLY, path: "/v1/auth/validate", limit: "validate", perMinute: 100 }),
  refresh: make({ ...POST_ONLY, path: "/v1/auth/refresh", limit: "refresh", perMinute: 10 }),
  revoke: make({ ...POST_ONLY, path: "/v1/auth/revoke", limit: "revoke", perMinute: 10 }),
  license: make({ ...POST_ONLY, path: "/v1/auth/license", limit: "license", perMinute: 10 }),
  getRepoToken: make({ ...REPO_TOKEN, method: "GET" }),
  postRepoToken: make({ ...REPO_TOKEN, method: "POST" }),
  modelsList: make({
    method: "GET",
    path: "/v1/models/list",
    limit: "models",
    perMinute: 60,
    allow: "GET",
    fields: {},
  }),
  machineList: make({ ...POST_ONLY, path: "/v1/machines/list", limit: "machine_list", perMinute: 60 }),
  analyticsBatch: make({
    ...POST_ONLY,
    path: "/v1/analytics/batch",
    limit: "analytics_batch",
    perMinute: 10,
    fields: { events: [{ event_type: "inference" }] },
    bodyLimitBytes: 1024 * 1024,
  }),
  analyticsLog: make({
    ...POST_ONLY,
    path: "/v1/analytics/log",
    limit: "analytics",
    perMinute: 1000,
    fields: { event_type: "inference" },
  }),
} as const;

export const ALL: readonly Endpoint[] = Object.values(ENDPOINTS);
export const WITH_BODY: readonly Endpoint[] = ALL.filter(({ method }) => method === "POST");

type Described = Omit<Endpoint, "title" | "bodyLimitBytes"> & Partial<Pick<Endpoint, "bodyLimitBytes">>;

function make(endpoint: Described): Endpoint {
  return { bodyLimitBytes: 64 * 1024, ...endpoint, title: `${endpoint.method} ${endpoint.path}` };
}

export interface CallOptions {
  /** Fields that replace those of a right request. */
  readonly fields?: object;
  readonly headers?: Record<string, string>;
}

/**
 * Sends the endpoint's right request with `key` at the contract's place for keys; without a key if it is
 * undefined.
 */
export function call(
  service: TestService,
  endpoint: Endpoint,
  key: unknown,
  { fields, headers }: CallOptions = {},
): Promise<JsonResponse> {
  if (endpoint.method === "POST") {
    return service.post(endpoint.path, { api_key: key, ...endpoint.fields, ...fields }, headers);
  }
  const query = key === undefined ? "" : `?${new URLSearchParams({ api_key: String(key) })}`;
  return service.get(endpoint.path + query, headers);
}
