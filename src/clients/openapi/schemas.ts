/**
 * Every body of the interface as a schema, by its name in the OpenAPI document. The schemas of requests are built from
 * those that check requests; `test/clients/openapi_test.ts` compares the schemas of answers with real answers.
 */
import * as v from "valibot";
import { count, described, identifier, oneOfThese, timestamp } from "../../base/answer_fields.ts";
import { keyPattern } from "../../licensing/keys/mod.ts";
import { holdingMachineSchema, machinesPageSchema } from "../../licensing/machines/mod.ts";
import type { Brand } from "../../licensing/mod.ts";
import { featuresOf, TIERS, valuesSchema } from "../../licensing/mod.ts";
import { batchEventFields, eventFields } from "../../usage/mod.ts";
import { CLIENT_CODES, toWireCode } from "../../wire/mod.ts";
import { revocation } from "../auth_routes.ts";
import { MOST_EVENTS } from "../batch_routes.ts";
import { API_VERSION } from "../health_routes.ts";
import { licenseFields } from "../license_routes.ts";
import { machineListFields } from "../machine_list_routes.ts";
import { activationFields, machineFields, releaseFields } from "../machine_routes.ts";

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
    license_type: described(v.picklist(TIERS), "The tier"),
    features: described(
      v.array(oneOfThese(features)),
      "The features of the tier and those that the license has beside it",
    ),
  };

  const Quota = v.object({
    monthly_limit: described(v.nullable(count()), "The month's allowance; null means unlimited"),
    used: described(count(), "Inferences of this month"),
    remaining: described(v.nullable(count()), "The rest of the allowance; null means unlimited"),
    resets_at: described(timestamp(), "The first second of the next month, UTC"),
  });
  const Model = v.object({
    name: described(v.string(), "Unique in the registry"),
    version: v.string(),
    type: v.pipe(v.string(), v.examples([...brand.modelTypes])),
    paradigm: v.pipe(v.string(), v.examples(["motor_imagery", "p300", "ssvep", "erp"])),
    n_features: count(1),
    n_classes: count(2),
    size_mb: v.pipe(v.number(), v.minValue(0), v.description("Megabytes")),
    download_url: described(v.string(), "The file's address; a link of this service expires"),
    checksum: v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/)),
    requires_license: described(v.picklist(TIERS), "The lowest tier that may load it"),
    metadata: described(v.record(v.string(), v.unknown()), "Free-form; {} if there is none"),
  });
  const health = {
    timestamp: timestamp(),
    version: v.literal(API_VERSION),
    database: v.picklist(["connected", "disconnected"]),
  };
  const ends = {
    expires_at: timestamp(),
    updates_until: described(
      v.optional(timestamp()),
      "Absent if every version is for the license; versions of models that are registered later are not listed or loaded",
    ),
    entitlements: described(
      v.optional(valuesSchema),
      "The values of the license, such as `channels: 64`: at most 64 with 8 KiB; absent if there are none",
    ),
  };
  const machine = {
    machine_id: described(v.nullable(identifier("mch")), "Null if the license does not count machines"),
    expires_at: described(
      v.nullable(timestamp()),
      "When the seat ends without a heartbeat; null if only a release ends the activation",
    ),
  };
  const places = v.object({
    limit: described(v.nullable(count(1)), "Null if the license does not count machines"),
    used: count(),
  });
  const error = {
    error: described(v.string(), "A sentence for people"),
    code: oneOfThese([...new Set(CLIENT_CODES.map(toWireCode))]),
  };

  const logged = {
    logged: v.literal(true),
    event_id: identifier("evt"),
    quota: v.object({ used: count(), remaining: v.nullable(count()) }),
    truncated: v.optional(
      described(v.literal(true), "The texts of the event had no room and were not stored; absent otherwise"),
    ),
  };
  const chargedMonth = described(
    v.pipe(v.string(), v.regex(/^\d{4}-\d{2}$/)),
    "The month to which the event belongs, UTC: `quota` is that of this month",
  );

  return {
    KeyRequest: v.object({ api_key: apiKey }),
    RevocationRequest: v.object({ api_key: apiKey, ...revocation.entries }),
    LicenseRequest: v.object({ api_key: apiKey, ...licenseFields.entries }),
    ActivationRequest: v.object({ api_key: apiKey, ...activationFields.entries }),
    MachineRequest: v.object({ api_key: apiKey, ...machineFields.entries }),
    ReleaseRequest: v.object({ api_key: apiKey, ...releaseFields.entries }),
    MachineListRequest: v.object({ api_key: apiKey, ...machineListFields.entries }),
    EventRequest: v.object({ api_key: apiKey, ...eventFields.entries }),
    EventsRequest: v.object({
      api_key: apiKey,
      events: v.pipe(v.array(batchEventFields), v.minLength(1), v.maxLength(MOST_EVENTS)),
    }),
    Validation: v.object({
      valid: v.literal(true),
      user_id: identifier("usr"),
      email: v.string(),
      name: described(v.string(), "The account's e-mail if no name was given"),
      organization: described(v.string(), "Empty if there is none"),
      ...license,
      quota: Quota,
      ...ends,
    }),
    Refresh: v.object({ valid: v.literal(true), ...license, quota: Quota, ...ends }),
    Quota,
    License: v.object({
      license: described(v.string(), "A compact JWS: three parts, joined by points"),
      expires_at: timestamp(),
      refresh_after: described(timestamp(), "When to ask for the next license"),
      kid: described(v.string(), "The key that signed the license"),
    }),
    PublicKeys: v.object({
      keys: v.array(v.looseObject({ kty: text, crv: text, x: text, kid: text, use: text, alg: text })),
    }),
    Revocation: v.object({ revoked: v.literal(true), message: v.string() }),
    RepositoryToken: v.object({
      success: v.literal(true),
      [`${brand.installerHost}_token`]: described(v.string(), "Read-only; treat it as opaque"),
      expires_at: described(v.nullable(timestamp()), "Null for a token that does not expire"),
      message: v.string(),
    }),
    Activation: v.object({ ...machine, machines: places }),
    Heartbeat: v.object(machine),
    Release: v.object({
      released: v.literal(true),
      machine_id: machine.machine_id,
      state: described(
        v.optional(v.nullable(oneOfThese(["released", "offline"]))),
        "Only of a release by id: `offline` if a license that was signed for it still holds its place",
      ),
      taken_until: described(
        v.optional(v.nullable(timestamp())),
        "Only of a release by id: until when that license holds its place; null if it is free",
      ),
    }),
    Machine: holdingMachineSchema,
    MachineList: machinesPageSchema,
    ModelList: v.object({ models: v.array(Model), total: count() }),
    Model,
    EventLogged: v.object(logged),
    EventsLogged: v.object({
      results: described(
        v.array(
          v.union([
            v.object({ ...logged, month: chargedMonth }),
            v.object({
              logged: v.literal(false),
              ...error,
              month: v.optional(chargedMonth),
              quota: v.optional(logged.quota),
            }),
          ]),
        ),
        "One for each event, in their order. `month` and `quota` are absent if a field of the event was wrong",
      ),
    }),
    Healthy: v.object({ status: v.literal("healthy"), ...health }),
    Unhealthy: v.object({ status: v.literal("unhealthy"), ...health, error: v.string() }),
    OpenApi: v.looseObject({ openapi: v.string() }),
    Error: v.object(error),
    NoPlace: v.object({ ...error, machines: places }),
    NotConfigured: v.object({
      ...error,
      message: described(v.string(), "The same text as `error`"),
    }),
  };
}
