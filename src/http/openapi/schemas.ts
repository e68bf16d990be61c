/**
 * Every body of the interface as a schema, by the name that the OpenAPI document has for it. Those of
 * requests are made from the schemas that check them; those of answers are held against real answers by
 * `test/http/openapi_test.ts`.
 */
import * as v from "valibot";
import type { Brand } from "../../brand.ts";
import { type IdKind, toId } from "../../ids.ts";
import { keyPattern } from "../../keys/mod.ts";
import { featuresOf, TIERS } from "../../licensing/mod.ts";
import { revocation } from "../auth_routes.ts";
import { CODES, toWireCode } from "../error_response.ts";
import { eventFields } from "../event_fields.ts";
import { API_VERSION } from "../health_routes.ts";

/** The names of the schemas. */
export type SchemaName = keyof ReturnType<typeof createSchemas>;

/** Makes the schemas for a brand, whose words are in keys, and in a path and a field of the installer. */
export function createSchemas(brand: Brand) {
  // One list: the highest tier has every feature.
  const features = featuresOf("enterprise");
  const apiKey = v.optional(
    v.pipe(
      v.string(),
      v.regex(keyPattern(brand)),
      v.description("The key; required here unless `X-API-Key` carries it"),
    ),
  );
  const license = {
    license_type: v.pipe(v.picklist(TIERS), v.description("The tier")),
    features: v.pipe(v.array(oneOfThese(features)), v.description("What the tier includes")),
  };

  const Quota = v.object({
    monthly_limit: v.pipe(v.nullable(count()), v.description("The month's allowance; null is unlimited")),
    used: v.pipe(count(), v.description("Inferences of this month")),
    remaining: v.pipe(v.nullable(count()), v.description("What is left of it; null is unlimited")),
    resets_at: v.pipe(timestamp(), v.description("The first second of the next month, UTC")),
  });
  const Model = v.object({
    name: v.pipe(v.string(), v.description("Unique in the registry")),
    version: v.string(),
    type: v.pipe(v.string(), v.examples([...brand.modelTypes])),
    paradigm: v.pipe(v.string(), v.examples(["motor_imagery", "p300", "ssvep", "erp"])),
    n_features: count(1),
    n_classes: count(2),
    size_mb: v.pipe(v.number(), v.minValue(0), v.description("Megabytes")),
    download_url: v.pipe(v.string(), v.description("Where the file is; a link of this service expires")),
    checksum: v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/)),
    requires_license: v.pipe(v.picklist(TIERS), v.description("The lowest tier that may load it")),
    metadata: v.pipe(v.record(v.string(), v.unknown()), v.description("Free-form; {} where there is none")),
  });
  const health = {
    timestamp: timestamp(),
    version: v.literal(API_VERSION),
    database: v.picklist(["connected", "disconnected"]),
  };
  const error = {
    error: v.pipe(v.string(), v.description("For people")),
    code: oneOfThese([...new Set(CODES.map(toWireCode))]),
  };

  return {
    KeyRequest: v.object({ api_key: apiKey }),
    RevocationRequest: v.object({ api_key: apiKey, ...revocation.entries }),
    EventRequest: v.object({ api_key: apiKey, ...eventFields.entries }),
    Validation: v.object({
      valid: v.literal(true),
      user_id: identifier("usr"),
      email: v.string(),
      name: v.pipe(v.string(), v.description("The account's e-mail where no name was given")),
      organization: v.pipe(v.string(), v.description("Empty where there is none")),
      ...license,
      quota: Quota,
      expires_at: timestamp(),
    }),
    Refresh: v.object({ valid: v.literal(true), ...license, quota: Quota, expires_at: timestamp() }),
    Quota,
    Revocation: v.object({ revoked: v.literal(true), message: v.string() }),
    RepositoryToken: v.object({
      success: v.literal(true),
      [`${brand.installerHost}_token`]: v.pipe(v.string(), v.description("Read-only; treat it as opaque")),
      expires_at: v.pipe(v.nullable(timestamp()), v.description("Null for a token that does not expire")),
      message: v.string(),
    }),
    ModelList: v.object({ models: v.array(Model), total: count() }),
    Model,
    EventLogged: v.object({
      logged: v.literal(true),
      event_id: identifier("evt"),
      quota: v.object({ used: count(), remaining: v.nullable(count()) }),
    }),
    Healthy: v.object({ status: v.literal("healthy"), ...health }),
    Unhealthy: v.object({ status: v.literal("unhealthy"), ...health, error: v.string() }),
    OpenApi: v.looseObject({ openapi: v.string() }),
    Error: v.object(error),
    NotConfigured: v.object({ ...error, message: v.pipe(v.string(), v.description("The error once more")) }),
  };
}

/** One of these, or a value that comes later: clients must take it. */
function oneOfThese(known: readonly string[]) {
  return v.union([v.picklist(known), v.string()]);
}

function count(least = 0) {
  return v.pipe(v.number(), v.safeInteger(), v.minValue(least));
}

/** To the second, in UTC. */
function timestamp() {
  return v.pipe(v.string(), v.isoTimestamp(), v.regex(/T\d\d:\d\d:\d\dZ$/));
}

function identifier(kind: IdKind) {
  const example = toId(kind, "019a0000-0000-7000-8000-000000000000");
  return v.pipe(v.string(), v.regex(new RegExp(`^${kind}_[0-9a-f]{32}$`)), v.examples([example]));
}
