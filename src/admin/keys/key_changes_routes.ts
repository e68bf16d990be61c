/** Changes keys: suspend, resume, rotate, replace, revoke. */
import * as v from "valibot";
import { SPAN, toTimestamp } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import {
  findKey,
  type RotatedKey,
  repeatRotation,
  replaceKey,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
  USUAL_OVERLAP,
} from "../../licensing/keys/mod.ts";
import { type LicenseChanges, refuseUnknownKey } from "../../licensing/mod.ts";
import type { Scope } from "../../operators/mod.ts";
import { REASON } from "../frame/api/fields.ts";
import { keyFor } from "../frame/api/path_ids.ts";
import { type Call, type Route, route } from "../frame/api/route.ts";
import { readAfterChange } from "../frame/log_failure.ts";
import type { AdminOptions } from "../frame/options.ts";
import { answerKeyOnce } from "./key_once.ts";
import { KEY_STATE, ROTATED_KEY, SUCCESSOR_KEY } from "./key_schemas.ts";

interface StateChange {
  readonly summary: string;
  perform(changes: LicenseChanges, uuid: string, call: Call): Promise<object | Refusal>;
}

function changeOfState(verb: string, scope: Scope, { summary, perform }: StateChange): Route {
  return route(`POST /keys/:id/${verb}`, scope, {
    id: `${verb}Key`,
    summary,
    path: keyFor(`${verb} key`),
    body: v.strictObject(REASON),
    success: { schema: KEY_STATE, description: "The new state; `expired` if the key has expired" },
    codes: ["CONFLICT"],
    async run({ database, licenseChanges }, call) {
      const { uuid, what, now } = call;
      const changed = await perform(licenseChanges, uuid, call);
      if (isRefusal(changed)) return changed;
      const key = await readAfterChange(() => findKey(database, { uuid }, { now }));
      if (isRefusal(key)) return key;
      return key === undefined ? refuseUnknownKey(what, uuid) : { id: key.id, state: key.state };
    },
  });
}

/** What the operations have in common that make the next key of a license. */
const MAKES_KEY = { codes: ["CONFLICT"], needsIdempotencyKey: true } as const;
const MADE = { status: 201, description: "The new key, which is shown only in this answer" } as const;

/** Makes the next key of a license, once for each `Idempotency-Key`. */
async function makeSuccessor(
  options: AdminOptions,
  call: Parameters<typeof answerKeyOnce>[1] & { readonly uuid: string; readonly what: string },
  make: typeof replaceKey,
) {
  const { uuid, what, now } = call;
  const made = await answerKeyOnce<RotatedKey>(options, call, {
    what,
    async perform(storeAnswer) {
      const old = await findKey(options.database, { uuid }, { now });
      if (old === undefined) return refuseUnknownKey(what, uuid);
      const by = { ...call, brand: options.brand, storeAnswer };
      return await make(options.licenseChanges, { uuid, mode: old.mode }, by);
    },
    repeat: repeatRotation,
  });
  if (isRefusal(made)) return made;
  return { ...made, rendered: { id: made.id, api_key: made.apiKey, replaces: toId("key", uuid) } };
}

export const KEY_CHANGE_ROUTES = [
  changeOfState("suspend", "keys:manage", {
    summary: "Suspend a key: it is refused until it is resumed",
    perform: suspendKey,
  }),

  changeOfState("resume", "keys:manage", { summary: "Resume a suspended key", perform: resumeKey }),

  route("POST /keys/:id/rotate", "keys:manage", {
    id: "rotateKey",
    summary: "Issue a second key for the same license; the old key works until the overlap ends",
    path: keyFor("rotate key"),
    body: v.strictObject({
      overlap: v.optional(
        parsedField(SPAN, {
          description: "How long the old key still works, in days or hours, at most ten years",
        }),
        USUAL_OVERLAP,
      ),
      ...REASON,
    }),
    ...MAKES_KEY,
    success: { ...MADE, schema: ROTATED_KEY },
    async run(options, call) {
      const overlapMs = call.body.overlap;
      const rotated = await makeSuccessor(options, call, (changes, old, by) =>
        rotateKey(changes, { ...old, overlapMs }, by),
      );
      if (isRefusal(rotated)) return rotated;
      return { ...rotated.rendered, old_works_until: toTimestamp(rotated.oldWorksUntil) };
    },
  }),

  route("POST /keys/:id/replace", "keys:manage", {
    id: "replaceKey",
    summary: "Issue a new key for the license of a revoked key",
    description:
      "Tier, limits, external id, expiry and use are those of the license, and the mode is that of the revoked key. If the " +
      "license has expired, renew it, so that the new key works. A key that is not revoked is rotated instead.",
    path: keyFor("replace key"),
    body: v.strictObject(REASON),
    ...MAKES_KEY,
    success: { ...MADE, schema: SUCCESSOR_KEY },
    async run(options, call) {
      const made = await makeSuccessor(options, call, replaceKey);
      return isRefusal(made) ? made : made.rendered;
    },
  }),

  changeOfState("revoke", "keys:revoke", {
    summary: "Revoke a key for good",
    perform: (changes, uuid, call) => revokeKey(changes, { uuid }, call),
  }),
];
