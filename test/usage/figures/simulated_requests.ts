/** Requests of every kind, as clients send them. */
import { BRAND } from "../../support/issue.ts";

/** A key as a client has it, and why it is refused: empty for one that works or has expired. */
export interface Client {
  readonly apiKey: string;
  readonly flaw: "" | "unknown" | "suspended" | "revoked";
}

export interface SimulatedRequest {
  /** As the activity names it. */
  readonly endpoint: string;
  readonly path: string;
  readonly init: RequestInit;
}

type Random = (below: number) => number;
type Kind = (client: Client, random: Random) => SimulatedRequest;

const post = (endpoint: string, path: string, body: object | string, headers = {}): SimulatedRequest => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { endpoint, path, init: { method: "POST", body: text, headers } };
};
const postKey =
  (endpoint: string, path: string): Kind =>
  ({ apiKey }) =>
    post(endpoint, path, { api_key: apiKey });
const get =
  (endpoint: string, path: string): Kind =>
  ({ apiKey }) => ({ endpoint, path, init: { headers: { "X-API-Key": apiKey } } });
const event =
  (fields: object, headersOf: (random: Random) => object = () => ({})): Kind =>
  ({ apiKey }, random) =>
    post("analytics", "/v1/analytics/log", { api_key: apiKey, ...fields }, headersOf(random));
const often = (times: number, kind: Kind): Kind[] => Array(times).fill(kind);

const inference = { event_type: "inference" };
const VALIDATE = "/v1/auth/validate";

const KINDS: readonly Kind[] = [
  ...often(14, event(inference)),
  // An event that is sent again with its claim is accepted, and counted once.
  ...often(
    2,
    event(inference, (random) => ({ "Idempotency-Key": `claim-${random(4)}` })),
  ),
  event({ event_type: "error" }),
  event({}),
  ...often(4, postKey("validate", VALIDATE)),
  ...often(2, postKey("refresh", "/v1/auth/refresh")),
  postKey("license", "/v1/auth/license"),
  // A key that works stays as it is.
  ({ apiKey, flaw }) =>
    post("revoke", "/v1/auth/revoke", { api_key: /unknown|revoked/.test(flaw) ? apiKey : "no key" }),
  () => post("validate", VALIDATE, "{"),
  () => post("validate", VALIDATE, {}),
  get("validate", VALIDATE),
  get("models", "/v1/models/list"),
  get("repo_token", `/v1/installer/${BRAND.installerHost}-token`),
  get("downloads", "/v1/models/download/none/1.0.0"),
  get("health", "/api/health"),
  get("jwks", "/.well-known/jwks.json"),
  get("openapi", "/openapi.json"),
  get("other", "/made/up"),
];

/** Returns a request of any kind, most often an inference. */
export function makeRequest(client: Client, random: Random): SimulatedRequest {
  return (KINDS[random(KINDS.length)] as Kind)(client, random);
}

/** Returns why a key was refused: the code or the state of the key tells it. */
export function reasonOf(code: string, { flaw }: Client): string {
  if (code === "KEY_EXPIRED") return "expired";
  return code === "INVALID_KEY" || code === "KEY_NOT_FOUND" ? flaw : "";
}
