/** The limited endpoints, each with a request that is right, for tests that say the same of all of them. */
import type { LimitedEndpoint } from "../../src/endpoints.ts";
import type { JsonResponse, TestService } from "./service.ts";

export interface Endpoint {
  /** `METHOD /path`, as tests are named. */
  readonly title: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly limit: LimitedEndpoint;
  /** The contract's requests a minute. */
  readonly perMinute: number;
  /** What `Allow` says on this path. */
  readonly allow: string;
  /** What a right request has beside its key. */
  readonly fields: object;
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

function make(endpoint: Omit<Endpoint, "title">): Endpoint {
  return { ...endpoint, title: `${endpoint.method} ${endpoint.path}` };
}

export interface CallOptions {
  /** Over the fields of a right request. */
  readonly fields?: object;
  readonly headers?: Record<string, string>;
}

/** Sends the endpoint's right request with `key` where the contract has it; none where it is undefined. */
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
