/** Schemas of the things in answers. Rooms render the things; a test compares each rendered thing with its schema. */
import * as v from "valibot";
import { TIERS } from "../../../licensing/mod.ts";
import { count, identifier, oneOfThese, timestamp } from "../../../wire/mod.ts";

/** Returns the schema of an object that has a name of its own in the OpenAPI document. */
export function titled<Entries extends v.ObjectEntries>(title: string, entries: Entries) {
  return v.pipe(v.object(entries), v.title(title));
}

export const ACCOUNT = titled("Account", {
  id: identifier("usr"),
  email: v.string(),
  name: v.string(),
  organization: v.string(),
  keys: v.pipe(count(), v.description("The number of its keys, including revoked keys")),
  created_at: timestamp(),
});

export const USAGE = titled("Usage", {
  month: v.string(),
  license_id: identifier("lic"),
  user_id: identifier("usr"),
  email: v.string(),
  organization: v.string(),
  tier: oneOfThese(TIERS),
  monthly_limit: v.pipe(v.nullable(count()), v.description("Null means unlimited")),
  used: v.pipe(count(), v.description("The units of the month")),
  external_id: v.pipe(v.nullable(v.string()), v.description("The operator's own name for the license")),
  mode: v.pipe(v.string(), v.description("`live`, `test`, or `live+test` for a license with both")),
});

const ofVersion = {
  version: v.string(),
  type: v.string(),
  paradigm: v.string(),
  n_features: count(1),
  n_classes: count(2),
  size_mb: v.number(),
};

export const MODEL = titled("Model", {
  name: v.string(),
  ...ofVersion,
  requires_license: oneOfThese(TIERS),
  owner: v.pipe(v.nullable(identifier("usr")), v.description("Null for a public model")),
  download_url: v.pipe(v.nullable(v.string()), v.description("Null if the service hosts the file")),
  checksum: v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/)),
  metadata: v.record(v.string(), v.unknown()),
});

export const REGISTERED_MODEL = titled("RegisteredModel", {
  name: v.string(),
  listed_version: v.pipe(v.nullable(v.string()), v.description("Null if clients do not see the model")),
  owner: v.pipe(v.nullable(identifier("usr")), v.description("Null for a public model")),
  versions: v.array(
    v.object({
      ...ofVersion,
      hosted: v.pipe(v.boolean(), v.description("False if the file is at another address")),
      requires_license: oneOfThese(TIERS),
      added_at: timestamp(),
      retired_at: v.pipe(v.nullable(timestamp()), v.description("Null for a version that is not retired")),
    }),
  ),
});

export const ACTIVITY_ROW = titled("Activity", {
  at: v.pipe(timestamp(), v.description("The beginning of the hour, day or month")),
  endpoint: v.optional(v.pipe(v.string(), v.description("Only by endpoint"))),
  code: v.optional(v.pipe(v.string(), v.description("Only by code; `OK` for an answer without an error"))),
  reason: v.optional(v.pipe(v.string(), v.description("Only by reason: why a key was refused"))),
  http_requests: count(1),
});

export const AUDIT_ROW = titled("AuditRow", {
  id: count(1),
  at: timestamp(),
  actor: v.pipe(v.string(), v.examples(["token:shop"])),
  door: v.nullable(oneOfThese(["client", "command", "api", "console"])),
  action: v.pipe(v.string(), v.examples(["key.revoke"])),
  user_id: v.nullable(identifier("usr")),
  license_id: v.nullable(identifier("lic")),
  key_id: v.nullable(identifier("key")),
  before: v.nullable(v.record(v.string(), v.unknown())),
  after: v.nullable(v.record(v.string(), v.unknown())),
  reason: v.nullable(v.string()),
  request: v.nullable(v.string()),
  address: v.nullable(v.string()),
});

export const FINDING = titled("Finding", {
  name: v.string(),
  state: oneOfThese(["ok", "warn", "fail", "skip"]),
  message: v.string(),
  remedy: v.optional(v.string()),
});
