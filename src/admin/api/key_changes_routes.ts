/** Changes keys: suspend, resume, revoke, rotate. */
import * as v from "valibot";
import { parseSpan, toTimestamp } from "../../calendar.ts";
import { toId } from "../../ids.ts";
import {
  findKey,
  type RotatedKey,
  repeatRotation,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
} from "../../keys/mod.ts";
import { refuseUnknownKey } from "../../licensing/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { inJsonSchema } from "../../wire/mod.ts";
import type { AdminOptions } from "../options.ts";
import { readAfterChange } from "./after_change.ts";
import { REASON } from "./fields.ts";
import { answerKeyOnce } from "./key_once.ts";
import { KEY_STATE, ROTATED_KEY } from "./key_schemas.ts";
import { type Call, operation } from "./operation.ts";
import { keyUuidOf } from "./path_ids.ts";

const WITH_REASON = v.strictObject(REASON);

export const suspend = operation({
  id: "suspendKey",
  summary: "Suspend a key: it is refused until it is resumed",
  body: WITH_REASON,
  success: { schema: KEY_STATE, description: "The new state" },
  codes: ["KEY_NOT_FOUND", "CONFLICT"],
  run: (options, call) =>
    change(options, call, {
      what: "suspend key",
      perform: (uuid, by) => suspendKey(options.database, uuid, by),
    }),
});

export const resume = operation({
  id: "resumeKey",
  summary: "Resume a suspended key",
  body: WITH_REASON,
  success: { schema: KEY_STATE, description: "The new state; `expired` if the key expired meanwhile" },
  codes: ["KEY_NOT_FOUND", "CONFLICT"],
  run: (options, call) =>
    change(options, call, {
      what: "resume key",
      perform: (uuid, by) => resumeKey(options.database, uuid, by),
    }),
});

export const revoke = operation({
  id: "revokeKey",
  summary: "Revoke a key for good",
  body: WITH_REASON,
  success: { schema: KEY_STATE, description: "The new state" },
  codes: ["KEY_NOT_FOUND", "CONFLICT"],
  run: (options, call) =>
    change(options, call, {
      what: "revoke key",
      perform: (uuid, by) => revokeKey(options.database, { uuid }, by),
    }),
});

async function change(
  { database, directory }: AdminOptions,
  call: Call,
  {
    what,
    perform,
  }: {
    readonly what: string;
    perform(
      uuid: string,
      by: Parameters<typeof suspendKey>[2],
    ): Promise<{ readonly licenseUuid: string } | Refusal>;
  },
): Promise<object> {
  const uuid = keyUuidOf(call, what);
  if (isRefusal(uuid)) return uuid;
  const { actor, now, token } = call;
  const changed = await perform(uuid, { actor, now, restriction: token.restriction });
  if (isRefusal(changed)) return changed;
  directory.forgetLicense(changed.licenseUuid);
  const key = await readAfterChange(() => findKey(database, { uuid }, { now }));
  if (isRefusal(key)) return key;
  return key === undefined ? refuseUnknownKey(what, uuid) : { id: key.id, state: key.state };
}

const WRONG_OVERLAP = "overlap must be whole days or hours, such as 7d or 12h, at most ten years";
/** A week: long enough for a customer to install the new key. */
const OVERLAP = "7d";

export const rotate = operation({
  id: "rotateKey",
  summary: "Issue a second key for the same license; the old key works until the overlap ends",
  body: v.strictObject({
    overlap: v.optional(
      v.pipe(
        v.string(WRONG_OVERLAP),
        v.check((text) => parseSpan(text) !== undefined, WRONG_OVERLAP),
        inJsonSchema({
          pattern: "^[0-9]{1,5}[dh]$",
          description: "How long the old key still works, in days or hours",
        }),
      ),
      OVERLAP,
    ),
    ...REASON,
  }),
  success: {
    status: 201,
    schema: ROTATED_KEY,
    description: "The new key, which is shown only in this answer",
  },
  codes: ["KEY_NOT_FOUND", "CONFLICT"],
  needsIdempotencyKey: true,
  async run(options, call) {
    const what = "rotate key";
    const { database, brand, directory } = options;
    const uuid = keyUuidOf(call, what);
    if (isRefusal(uuid)) return uuid;
    const { actor, now, token, body } = call;
    const overlapMs = parseSpan(body.overlap) ?? 0;
    const rotated = await answerKeyOnce<RotatedKey>(options, call, {
      what,
      async perform(claim) {
        const old = await findKey(database, { uuid }, { now });
        if (old === undefined) return refuseUnknownKey(what, uuid);
        const by = { brand, actor, now, restriction: token.restriction, claim };
        return await rotateKey(database, { uuid, mode: old.mode, overlapMs }, by);
      },
      repeat: ({ answer, apiKey }) => repeatRotation(answer, apiKey),
    });
    if (isRefusal(rotated)) return rotated;
    directory.forgetLicense(rotated.licenseUuid);
    return {
      id: rotated.id,
      api_key: rotated.apiKey,
      replaces: toId("key", uuid),
      old_works_until: toTimestamp(rotated.oldWorksUntil),
    };
  },
});
