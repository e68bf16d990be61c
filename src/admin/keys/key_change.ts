/** The changes of a key that its page offers: the fields of each form, and the function that makes the change. */
import * as v from "valibot";
import { toId } from "../../ids.ts";
import { resumeKey, revokeKey, suspendKey } from "../../keys/mod.ts";
import { changeLicense, type LicenseChange } from "../../licensing/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { EXTERNAL_ID_FIELD, TIER_FIELD } from "../frame/api/fields.ts";
import {
  type By,
  EXPIRY_ENTRIES,
  expiryOf,
  type FieldsOf,
  LIMIT_ENTRY,
  parseForm,
  repeatEntry,
  TEXT,
  TEXT_OR_NOTHING,
} from "../frame/console/attempt.ts";
import type { Visit } from "../frame/console/visit.ts";

interface Changed {
  /** The license whose cached keys must be forgotten before the request is answered. */
  readonly licenseUuid: string;
}

/** Makes a change of the key with a UUID, as its form says; or refuses it. */
export type KeyChange = (visit: Visit, uuid: string) => Promise<Changed | Refusal>;

/** The changes by the names of their actions, which are the last parts of their paths. */
export const KEY_CHANGES = {
  suspend: changeOf({}, (visit, uuid, by) => suspendKey(visit.options.database, uuid, by)),
  resume: changeOf({}, (visit, uuid, by) => resumeKey(visit.options.database, uuid, by)),
  renew: changeOfLicense(EXPIRY_ENTRIES, (fields, { now }) => {
    const expiresAt = expiryOf(fields, now);
    return isRefusal(expiresAt) ? expiresAt : { expiresAt };
  }),
  tier: changeOfLicense({ tier: v.pipe(TEXT, TIER_FIELD) }, ({ tier }) => ({ tier })),
  limit: changeOfLicense(LIMIT_ENTRY, ({ monthly_limit: limit }) => ({ monthlyLimit: limit ?? null })),
  "external-id": changeOfLicense(
    { external_id: v.pipe(TEXT_OR_NOTHING, v.optional(EXTERNAL_ID_FIELD)) },
    ({ external_id: externalId }) => ({ externalId: externalId ?? null }),
  ),
  revoke: (visit, uuid) => {
    const revoke = changeOf(repeatEntry(toId("key", uuid)), ({ options }, _, by) =>
      revokeKey(options.database, { uuid }, by),
    );
    return revoke(visit, uuid);
  },
} as const satisfies Readonly<Record<string, KeyChange>>;

function changeOf<Entries extends v.ObjectEntries>(
  entries: Entries,
  perform: (visit: Visit, uuid: string, by: By, fields: FieldsOf<Entries>) => Promise<Changed | Refusal>,
): KeyChange {
  return async (visit, uuid) => {
    const parsed = parseForm(entries, visit);
    return isRefusal(parsed) ? parsed : await perform(visit, uuid, parsed.by, parsed.fields);
  };
}

function changeOfLicense<Entries extends v.ObjectEntries>(
  entries: Entries,
  toChange: (fields: FieldsOf<Entries>, visit: Visit) => LicenseChange | Refusal,
): KeyChange {
  return changeOf(entries, async (visit, keyUuid, by, fields) => {
    const change = toChange(fields, visit);
    if (isRefusal(change)) return change;
    return await changeLicense(visit.options.database, { keyUuid }, { ...by, change });
  });
}
