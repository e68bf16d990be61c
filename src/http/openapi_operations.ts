/**
 * The operations of the interface: what each is for, and which codes it may answer. The one part of the
 * OpenAPI document that is written by hand; `test/http/openapi_test.ts` holds it against the routes and
 * against real answers.
 */
import type { Brand } from "../brand.ts";
import type { LimitedEndpoint } from "../endpoints.ts";
import type { Code } from "../refusal.ts";
import { DOWNLOAD_PATH } from "./download_link.ts";
import { API_VERSION } from "./health_routes.ts";
import type { SchemaName } from "./openapi_schemas.ts";

export type Json = Readonly<Record<string, unknown>>;

/** An answer that is no refusal. */
export interface Success {
  readonly status: number;
  /** Of a body that is JSON. */
  readonly schema?: SchemaName;
  /** Of another body, as OpenAPI's `content`. */
  readonly content?: Json;
  readonly description: string;
  readonly example?: Json;
  /** Beyond those that every answer of the endpoint has. */
  readonly headers?: readonly HeaderName[];
}

export interface Operation {
  /** With its parameters in braces. */
  readonly path: string;
  readonly method: "get" | "head" | "post";
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly limit?: LimitedEndpoint;
  /** True where a signed address does instead of a key. */
  readonly isLink?: boolean;
  readonly request?: { readonly schema: SchemaName; readonly example: Json };
  /** Those of the path and of the query, but for the key. */
  readonly parameters?: readonly Json[];
  readonly successes: readonly Success[];
  /** What it may refuse with, beyond what every endpoint may. */
  readonly codes: readonly Code[];
}

/** The headers that answers have, by their names. */
export const HEADERS = {
  "X-Request-Id": {
    description: "Names the request in the service's log",
    required: true,
    schema: { type: "string", pattern: "^req_[0-9a-f]{32}$" },
  },
  "X-RateLimit-Limit": {
    description: "Requests a minute",
    required: true,
    schema: { type: "integer", minimum: 1 },
  },
  "X-RateLimit-Remaining": {
    description: "How many of them are left now",
    required: true,
    schema: { type: "integer", minimum: 0 },
  },
  "X-RateLimit-Reset": {
    description: "The Unix second at which all of them would be left again",
    required: true,
    schema: { type: "integer", minimum: 0 },
  },
  "Retry-After": {
    description: "Whole seconds to wait; not with `QUOTA_EXCEEDED` and `NOT_CONFIGURED`",
    required: false,
    schema: { type: "integer", minimum: 1 },
  },
  Allow: {
    description: "The methods that the path takes",
    required: true,
    schema: { type: "string" },
  },
  ETag: {
    description: "Strong: it changes with the bytes",
    required: true,
    schema: { type: "string" },
  },
  "Accept-Ranges": {
    description: "That ranges of bytes can be asked for",
    required: true,
    schema: { type: "string", const: "bytes" },
  },
  "Content-Range": {
    description: "Which bytes these are, and of how many; with a 416, of how many alone",
    required: true,
    schema: { type: "string", pattern: "^bytes (\\d+-\\d+|\\*)/\\d+$" },
  },
  "Content-Disposition": {
    description: "A name to save the file under",
    required: true,
    schema: { type: "string" },
  },
} as const;
export type HeaderName = keyof typeof HEADERS;

const WITH_KEY: readonly Code[] = [
  "MISSING_KEY",
  "INVALID_FORMAT",
  "INVALID_REQUEST",
  "RATE_LIMIT_EXCEEDED",
  "SERVICE_UNAVAILABLE",
];
const WITH_GOOD_KEY: readonly Code[] = [...WITH_KEY, "INVALID_KEY", "KEY_EXPIRED"];
const WITH_BODY: readonly Code[] = ["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"];

const EXAMPLE_LICENSE = {
  license_type: "research",
  features: ["batch_inference", "streaming", "training", "calibration", "model_export"],
  quota: { monthly_limit: 50_000, used: 1_200, remaining: 48_800, resets_at: "2026-12-01T00:00:00Z" },
  expires_at: "2027-11-20T00:00:00Z",
};

/** Every operation, in the order of the document. */
export function operations(brand: Brand): Operation[] {
  const { installerHost } = brand;
  const token = {
    path: `/v1/installer/${installerHost}-token`,
    summary: "Get the read-only token of the package repository",
    limit: "repo_token",
    codes: [...WITH_GOOD_KEY, "NOT_CONFIGURED"],
    successes: [
      {
        status: 200,
        schema: "RepositoryToken",
        description: "The token",
        example: {
          success: true,
          [`${installerHost}_token`]: "<token>",
          expires_at: null,
          message: "Repository token issued: read-only, for the core package alone",
        },
      },
    ],
  } as const satisfies Partial<Operation>;
  const modelType = brand.modelTypes[0] ?? "";
  const file = {
    path: `${DOWNLOAD_PATH}{name}/{version}`,
    description:
      "By the address that the list gives, as it stands, or with a key. The bytes under an address never " +
      "change, and the tag is their SHA-256. All ranges of a file count once against the limit.",
    limit: "downloads",
    isLink: true,
    codes: [...WITH_GOOD_KEY, "NOT_FOUND", "LICENSE_REQUIRED"],
    parameters: [
      { ...parameter("path", "name", "The model's name", "motor_imagery_4class_v1"), required: true },
      { ...parameter("path", "version", "The model's version", "1.0.0"), required: true },
      parameter("query", "key", "Of a signed address: the identifier of a key, which is not the key"),
      parameter("query", "expires", "Of a signed address: the Unix second at which it expires"),
      parameter("query", "signer", "Of a signed address: what it was signed with"),
      parameter("query", "signature", "Of a signed address: its signature"),
      parameter("header", "If-None-Match", "Tags that are known: then the file is not sent"),
    ],
  } as const satisfies Partial<Operation>;
  const fileHeaders: readonly HeaderName[] = ["ETag", "Accept-Ranges"];
  const known: Success = {
    status: 304,
    description: "`If-None-Match` names its tag",
    headers: fileHeaders,
  };
  const bytes = { "application/octet-stream": {} };
  const health = {
    path: "/api/health",
    summary: "Ask whether the service is well",
    codes: [],
  } as const satisfies Partial<Operation>;
  const document = {
    path: "/openapi.json",
    summary: "Get this document",
    codes: [],
  } as const satisfies Partial<Operation>;
  const documentHeaders: readonly HeaderName[] = ["ETag"];
  const healthExample = { timestamp: "2026-11-20T10:00:00Z", version: API_VERSION };

  return [
    {
      path: "/v1/auth/validate",
      method: "post",
      id: "validateKey",
      summary: "Check a key",
      description: "Gives its account, tier, features and quota.",
      limit: "validate",
      request: { schema: "KeyRequest", example: {} },
      successes: [
        {
          status: 200,
          schema: "Validation",
          description: "The key is good",
          example: {
            valid: true,
            user_id: "usr_019a0000000070008000000000000000",
            email: "ada@example.org",
            name: "Ada",
            organization: "Example Laboratory",
            ...EXAMPLE_LICENSE,
          },
        },
      ],
      codes: [...WITH_GOOD_KEY, ...WITH_BODY, "QUOTA_EXCEEDED"],
    },
    {
      path: "/v1/auth/refresh",
      method: "post",
      id: "refreshKey",
      summary: "Get a key's license and quota again",
      description: "Answers also when the quota is used up.",
      limit: "refresh",
      request: { schema: "KeyRequest", example: {} },
      successes: [
        {
          status: 200,
          schema: "Refresh",
          description: "The key is good",
          example: { valid: true, ...EXAMPLE_LICENSE },
        },
      ],
      codes: [...WITH_GOOD_KEY, ...WITH_BODY],
    },
    {
      path: "/v1/auth/revoke",
      method: "post",
      id: "revokeKey",
      summary: "Revoke a key for good",
      description: "A suspended or expired key can be revoked too. It cannot be undone.",
      limit: "revoke",
      request: { schema: "RevocationRequest", example: { reason: "A laptop was lost" } },
      successes: [
        {
          status: 200,
          schema: "Revocation",
          description: "From now on the key is refused",
          example: { revoked: true, message: "The API key has been revoked permanently" },
        },
      ],
      codes: [...WITH_KEY, ...WITH_BODY, "KEY_NOT_FOUND"],
    },
    { ...token, method: "get", id: "getRepositoryToken" },
    {
      ...token,
      method: "post",
      id: "postForRepositoryToken",
      request: { schema: "KeyRequest", example: {} },
      codes: [...token.codes, ...WITH_BODY],
    },
    {
      path: "/v1/models/list",
      method: "get",
      id: "listModels",
      summary: "List the models that a key may load",
      description: "In byte order of their names. A filter that matches nothing gives an empty list.",
      limit: "models",
      parameters: [
        parameter(
          "query",
          "paradigm",
          "Lists models of this paradigm alone; empty is no filter",
          "motor_imagery",
        ),
        parameter("query", "type", "Lists models of this type alone; empty is no filter", modelType),
      ],
      successes: [
        {
          status: 200,
          schema: "ModelList",
          description: "The models",
          example: {
            models: [
              {
                name: "motor_imagery_4class_v1",
                version: "1.0.0",
                type: modelType,
                paradigm: "motor_imagery",
                n_features: 44,
                n_classes: 4,
                size_mb: 2.4,
                download_url: "https://models.example.org/motor_imagery_4class_v1",
                checksum: `sha256:${"ab".repeat(32)}`,
                requires_license: "free",
                metadata: { description: "Left hand, right hand, feet, tongue" },
              },
            ],
            total: 1,
          },
        },
      ],
      codes: WITH_GOOD_KEY,
    },
    {
      ...file,
      method: "get",
      id: "downloadModel",
      summary: "Download a model's file, or a range of it",
      parameters: [
        ...file.parameters,
        parameter(
          "header",
          "Range",
          "One range of bytes; several are answered with the whole file",
          "bytes=0-99",
        ),
        parameter("header", "If-Range", "The tag that the range is meant for; of another file all is sent"),
      ],
      successes: [
        {
          status: 200,
          description: "The file",
          content: bytes,
          headers: [...fileHeaders, "Content-Disposition"],
        },
        {
          status: 206,
          description: "The range",
          content: bytes,
          headers: [...fileHeaders, "Content-Disposition", "Content-Range"],
        },
        known,
      ],
      codes: [...file.codes, "RANGE_NOT_SATISFIABLE"],
    },
    {
      ...file,
      method: "head",
      id: "headModel",
      summary: "Ask for the size and the tag of a model's file",
      successes: [
        { status: 200, description: "There is one", headers: [...fileHeaders, "Content-Disposition"] },
        known,
      ],
    },
    {
      path: "/v1/analytics/log",
      method: "post",
      id: "logEvent",
      summary: "Log a usage event",
      description:
        "Answered when it is committed. An `inference` uses one unit of the quota; the others use none, and " +
        "are accepted when it is used up. After a 503 nobody knows whether the event was counted: with an " +
        "`Idempotency-Key` it can be sent again, and within 24 hours is stored and counted once.",
      limit: "analytics",
      parameters: [
        {
          in: "header",
          name: "Idempotency-Key",
          description: "A value of the client's own for each event",
          schema: { type: "string", pattern: "^[\\x20-\\x7e]{1,255}$" },
        },
      ],
      request: {
        schema: "EventRequest",
        example: {
          event_type: "inference",
          model_name: "motor_imagery_4class_v1",
          inference_type: "streaming",
          duration_ms: 12.5,
          metadata: { channels: 8 },
        },
      },
      successes: [
        {
          status: 202,
          schema: "EventLogged",
          description: "The event is committed",
          example: {
            logged: true,
            event_id: "evt_019a0000000070008000000000000000",
            quota: { used: 1_201, remaining: 48_799 },
          },
        },
      ],
      codes: [...WITH_GOOD_KEY, ...WITH_BODY, "MISSING_EVENT_TYPE", "QUOTA_EXCEEDED", "CLAIM_MISMATCH"],
    },
    {
      ...health,
      method: "get",
      id: "getHealth",
      successes: [
        {
          status: 200,
          schema: "Healthy",
          description: "It is",
          example: { status: "healthy", ...healthExample, database: "connected" },
        },
        {
          status: 503,
          schema: "Unhealthy",
          description: "It is stopping, or its database does not answer",
          example: {
            status: "unhealthy",
            ...healthExample,
            database: "disconnected",
            error: "The database does not answer",
          },
        },
      ],
    },
    {
      ...health,
      method: "head",
      id: "headHealth",
      successes: [
        { status: 200, description: "It is" },
        { status: 503, description: "It is stopping, or its database does not answer" },
      ],
    },
    {
      ...document,
      method: "get",
      id: "getOpenApi",
      successes: [
        { status: 200, schema: "OpenApi", description: "The document", headers: documentHeaders },
        { status: 304, description: "`If-None-Match` names its tag", headers: documentHeaders },
      ],
    },
    {
      ...document,
      method: "head",
      id: "headOpenApi",
      successes: [
        { status: 200, description: "There is one", headers: documentHeaders },
        { status: 304, description: "`If-None-Match` names its tag", headers: documentHeaders },
      ],
    },
  ];
}

function parameter(
  place: "path" | "query" | "header",
  name: string,
  description: string,
  example?: string,
): Json {
  const base = { name, in: place, required: false, description, schema: { type: "string" } };
  return example === undefined ? base : { ...base, example };
}
