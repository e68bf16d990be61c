/**
 * The operations of the interface: the purpose of each, and the codes that it may answer. This part of the OpenAPI
 * document is written by hand; `test/clients/openapi_test.ts` compares it with the routes and with real answers.
 */
import type { Brand } from "../../licensing/mod.ts";
import { fileOperations } from "./file_operations.ts";
import { machineOperations } from "./machine_operations.ts";
import {
  type EndpointOperation,
  jsonBody,
  parameters,
  WITH_BODY,
  WITH_GOOD_KEY,
  WITH_KEY,
} from "./operation.ts";
import { OWN_OPERATIONS } from "./own_operations.ts";

const EXAMPLE_LICENSE = {
  license_type: "research",
  features: ["batch_inference", "streaming", "training", "calibration", "model_export"],
  quota: { monthly_limit: 50_000, used: 1_200, remaining: 48_800, resets_at: "2026-12-01T00:00:00Z" },
  expires_at: "2027-11-20T00:00:00Z",
};

/**
 * Returns every operation, in the order of the document.
 *
 * One long function, because it is one table, without logic.
 */
export function operations(brand: Brand): EndpointOperation[] {
  const { installerHost } = brand;
  const token = {
    path: `/v1/installer/${installerHost}-token`,
    summary: "Get the read-only token of the package repository",
    limit: "repo_token",
    codes: [...WITH_GOOD_KEY, "NOT_CONFIGURED"],
    success: {
      schema: "RepositoryToken",
      description: "The token",
      example: {
        success: true,
        [`${installerHost}_token`]: "<token>",
        expires_at: null,
        message: "Repository token issued: read-only, for the core package alone",
      },
    },
  } as const satisfies Partial<EndpointOperation>;
  const modelType = brand.modelTypes[0] ?? "";
  return [
    {
      path: "/v1/auth/validate",
      method: "post",
      id: "validateKey",
      summary: "Check a key",
      description: "Returns its account, tier, features and quota.",
      limit: "validate",
      request: jsonBody("KeyRequest", {}),
      success: {
        schema: "Validation",
        description: "The key is valid",
        example: {
          valid: true,
          user_id: "usr_019a0000000070008000000000000000",
          email: "ada@example.org",
          name: "Ada",
          organization: "Example Laboratory",
          ...EXAMPLE_LICENSE,
        },
      },
      codes: [...WITH_GOOD_KEY, ...WITH_BODY, "QUOTA_EXCEEDED"],
    },
    {
      path: "/v1/auth/refresh",
      method: "post",
      id: "refreshKey",
      summary: "Get a key's license and quota again",
      description: "Also works when the quota is used up.",
      limit: "refresh",
      request: jsonBody("KeyRequest", {}),
      success: {
        schema: "Refresh",
        description: "The key is valid",
        example: { valid: true, ...EXAMPLE_LICENSE },
      },
      codes: [...WITH_GOOD_KEY, ...WITH_BODY],
    },
    {
      path: "/v1/auth/license",
      method: "post",
      id: "getLicense",
      summary: "Get a signed license, to be verified without a network",
      description:
        "A compact JWS (EdDSA). Verify it with the keys of `/.well-known/jwks.json`, which a client should pin. Also " +
        "works when the quota is used up. If the license counts machines, it is signed only for an active one (`fingerprint` of " +
        "8 to 200 characters), whose place is then taken until the end of the signed license, also if it is released.",
      limit: "license",
      request: jsonBody("LicenseRequest", { fingerprint: "workstation-7" }),
      success: {
        schema: "License",
        description: "The license",
        example: {
          license: "eyJhbGciOiJFZERTQSIsInR5cCI6ImxpY2Vuc2Urand0Iiwia2lkIjoi….….…",
          expires_at: "2026-11-27T00:00:00Z",
          refresh_after: "2026-11-23T12:00:00Z",
          kid: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
        },
      },
      codes: [...WITH_GOOD_KEY, ...WITH_BODY, "OFFLINE_NOT_ALLOWED", "MACHINE_NOT_FOUND"],
    },
    {
      path: "/v1/auth/revoke",
      method: "post",
      id: "revokeKey",
      summary: "Revoke a key permanently",
      description: "A suspended or expired key can be revoked too. A revocation cannot be undone.",
      limit: "revoke",
      request: jsonBody("RevocationRequest", { reason: "A laptop was lost" }),
      success: {
        schema: "Revocation",
        description: "From now on the key is refused",
        example: { revoked: true, message: "The API key has been revoked permanently" },
      },
      codes: [...WITH_KEY, ...WITH_BODY, "KEY_NOT_FOUND"],
    },
    { ...token, method: "get", id: "getRepositoryToken" },
    {
      ...token,
      method: "post",
      id: "postForRepositoryToken",
      request: jsonBody("KeyRequest", {}),
      codes: [...token.codes, ...WITH_BODY],
    },
    {
      path: "/v1/models/list",
      method: "get",
      id: "listModels",
      summary: "List the models that a key may load",
      description: "In byte order of their names. A filter that matches nothing gives an empty list.",
      limit: "models",
      parameters: parameters("query", {
        paradigm: ["Lists only models of this paradigm; empty means no filter", "motor_imagery"],
        type: ["Lists only models of this type; empty means no filter", modelType],
      }),
      success: {
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
      codes: WITH_GOOD_KEY,
    },
    ...fileOperations(),
    {
      path: "/v1/analytics/log",
      method: "post",
      id: "logEvent",
      summary: "Log a usage event",
      description:
        "The answer comes after the event is committed. An `inference` uses one unit of the quota; the other types " +
        "use none, and are accepted also when the quota is used up. After a 503 the client cannot know whether the " +
        "event was counted: with an `Idempotency-Key` it can send the event again, and within 24 hours the event is " +
        "stored and counted once. Events are compared by their meaning: the order of names makes no difference, and " +
        "a field that is null or has its default counts as absent.",
      limit: "analytics",
      parameters: [
        {
          in: "header",
          name: "Idempotency-Key",
          description: "A value that the client chooses, different for each event of the license",
          schema: { type: "string", pattern: "^[\\x20-\\x7e]{1,255}$" },
        },
      ],
      request: jsonBody("EventRequest", {
        event_type: "inference",
        model_name: "motor_imagery_4class_v1",
        inference_type: "streaming",
        duration_ms: 12.5,
        metadata: { channels: 8 },
      }),
      success: {
        status: 202,
        schema: "EventLogged",
        description: "The event is committed",
        example: {
          logged: true,
          event_id: "evt_019a0000000070008000000000000000",
          quota: { used: 1_201, remaining: 48_799 },
        },
      },
      codes: [...WITH_GOOD_KEY, ...WITH_BODY, "MISSING_EVENT_TYPE", "QUOTA_EXCEEDED", "CLAIM_MISMATCH"],
    },
    ...machineOperations(),
    ...OWN_OPERATIONS,
  ];
}
