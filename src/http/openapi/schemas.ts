/**
 * Every body of the interface as a schema, by its name in the OpenAPI document. The schemas of requests are built from
 * those that check requests; `test/http/openapi_test.ts` compares the schemas of answers with real answers.
 */
import * as v from "valibot";
import type { Brand } from "../../brand.ts";
import { keyPattern } from "../../keys/mod.ts";
import { featuresOf, TIERS } from "../../licensing/mod.ts";
import { CLIENT_CODES, count, identifier, oneOfThese, timestamp, toWireCode } from "../../wire/mod.ts";
import { revocation } from "../auth_routes.ts";
import { eventFields } from "../event_fields.ts";
import { API_VERSION } from "../health_routes.ts";
import { licenseFields } from "../license_routes.ts";
import { activationFields, machineFields } from "../machine_routes.ts";

/** Creates the schemas for a brand; its words are in keys, model types and a field of the installer. */
export function createSchemas(brand: Brand) {
  const text = v.string();
  // The highest tier has every feature.
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
    features: v.pipe(v.array(oneOfThese(features)), v.description("The features of the tier")),
  };

  const Quota = v.object({
    monthly_limit: v.pipe(v.nullable(count()), v.description("The month's allowance; null means unlimited")),
    used: v.pipe(count(), v.description("Inferences of this month")),
    remaining: v.pipe(v.nullable(count()), v.description("The rest of the allowance; null means unlimited")),
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
    download_url: v.pipe(v.string(), v.description("The file's address; a link of this service expires")),
    checksum: v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/)),
    requires_license: v.pipe(v.picklist(TIERS), v.description("The lowest tier that may load it")),
    metadata: v.pipe(v.record(v.string(), v.unknown()), v.description("Free-form; {} if there is none")),
  });
  const health = {
    timestamp: timestamp(),
    version: v.literal(API_VERSION),
    database: v.picklist(["connected", "disconnected"]),
  };
  const machine = {
    machine_id: v.pipe(
      v.nullable(identifier("mch")),
      v.description("Null if the license does not count machines"),
    ),
    expires_at: v.pipe(
      v.nullable(timestamp()),
      v.description("When the seat ends without a heartbeat; null if only a release ends the activation"),
    ),
  };
  const places = v.object({
    limit: v.pipe(v.nullable(count(1)), v.description("Null if the license does not count machines")),
    used: count(),
  });
  const error = {
    error: v.pipe(v.string(), v.description("A sentence for people")),
    code: oneOfThese([...new Set(CLIENT_CODES.map(toWireCode))]),
  };

  return {
    KeyRequest: v.object({ api_key: apiKey }),
    RevocationRequest: v.object({ api_key: apiKey, ...revocation.entries }),
    LicenseRequest: v.object({ api_key: apiKey, ...licenseFields.entries }),
    ActivationRequest: v.object({ api_key: apiKey, ...activationFields.entries }),
    MachineRequest: v.object({ api_key: apiKey, ...machineFields.entries }),
    EventRequest: v.object({ api_key: apiKey, ...eventFields.entries }),
    Validation: v.object({
      valid: v.literal(true),
      user_id: identifier("usr"),
      email: v.string(),
      name: v.pipe(v.string(), v.description("The account's e-mail if no name was given")),
      organization: v.pipe(v.string(), v.description("Empty if there is none")),
      ...license,
      quota: Quota,
      expires_at: timestamp(),
    }),
    Refresh: v.object({ valid: v.literal(true), ...license, quota: Quota, expires_at: timestamp() }),
    Quota,
    License: v.object({
      license: v.pipe(v.string(), v.description("A compact JWS: three parts, joined by points")),
      expires_at: timestamp(),
      refresh_after: v.pipe(timestamp(), v.description("When to ask for the next license")),
      kid: v.pipe(v.string(), v.description("The key that signed the license")),
    }),
    PublicKeys: v.object({
      keys: v.array(v.looseObject({ kty: text, crv: text, x: text, kid: text, use: text, alg: text })),
    }),
    Revocation: v.object({ revoked: v.literal(true), message: v.string() }),
    RepositoryToken: v.object({
      success: v.literal(true),
      [`${brand.installerHost}_token`]: v.pipe(v.string(), v.description("Read-only; treat it as opaque")),
      expires_at: v.pipe(v.nullable(timestamp()), v.description("Null for a token that does not expire")),
      message: v.string(),
    }),
    Activation: v.object({ ...machine, machines: places }),
    Heartbeat: v.object(machine),
    Release: v.object({ released: v.literal(true), machine_id: machine.machine_id }),
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
    NoPlace: v.object({ ...error, machines: places }),
    NotConfigured: v.object({
      ...error,
      message: v.pipe(v.string(), v.description("The same text as `error`")),
    }),
  };
}
