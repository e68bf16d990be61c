/** Makes a bundle for a customer without a network, as one download. */
import * as v from "valibot";
import { described } from "../../base/answer_fields.ts";
import { parsedField } from "../../base/rule.ts";
import { findKey } from "../../licensing/keys/mod.ts";
import { refuseUnknownKey } from "../../licensing/mod.ts";
import { MODEL_NAME, MOST_MODELS_NAMED } from "../../models/bundles/mod.ts";
import { REASON } from "../frame/api/fields.ts";
import { keyFor } from "../frame/api/path_ids.ts";
import { route } from "../frame/api/route.ts";
import { downloadBundle } from "./download_bundle.ts";
import { EXPORT_BODY } from "./export_body.ts";

export const makeBundleRoute = route("POST /keys/:id/bundle", "keys:issue", {
  id: "makeBundle",
  summary: "Make a bundle of a key's license and its models for a customer without a network",
  description:
    "The answer is a tar file with the license, the models that the license may load and a signed manifest. The license is signed, " +
    "noted and bounded like one of `POST /keys/{id}/license`, with the same refusals: each answer that begins is an export, and " +
    "its machine has a place of the license until the license ends. If the answer ends early, the connection is closed before its end.",
  path: keyFor("make bundle"),
  body: v.strictObject({
    ...EXPORT_BODY,
    models: v.nullish(
      described(
        v.pipe(
          v.array(parsedField(MODEL_NAME), "must be a list of names"),
          v.maxLength(MOST_MODELS_NAMED, `must have at most ${MOST_MODELS_NAMED} names`),
        ),
        "The names of the models; by default all that the license may load and whose files are hosted here, and none if it is empty",
      ),
    ),
    ...REASON,
  }),
  success: {
    description: "The bundle",
    content: { "application/x-tar": { schema: { type: "string", format: "binary" } } },
    headers: ["Content-Disposition"],
  },
  codes: ["CONFLICT", "SERVICE_UNAVAILABLE"],
  async run(options, { uuid: keyUuid, what, actor, now, restriction, right, body, request }) {
    const key = await findKey(options.database, { uuid: keyUuid }, { now });
    if (key === undefined) return refuseUnknownKey(what, keyUuid);
    const { days, fingerprint, models } = body;
    return await downloadBundle(
      {
        ...{ keyUuid, actor, now, restriction, days, key },
        fingerprint: fingerprint ?? undefined,
        models: models ?? undefined,
      },
      { options, actor, right, request },
    );
  },
});
