/** Renders refusals for programs: `{error, code}`, with `details` for wrong fields and `id` for a thing that exists. */
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { Refusal } from "../../base/refusal.ts";
import { statusOf, toWireCode } from "../../wire/mod.ts";
import type { AdminEnv } from "./options.ts";

/** Answers a refusal with the status of its code. */
export function answerRefusal(c: Context<AdminEnv>, refusal: Refusal): Response {
  const { code, sentence, fields, id, retryAfterSeconds } = refusal;
  c.set("code", toWireCode(code));
  if (retryAfterSeconds !== undefined) c.header("Retry-After", String(retryAfterSeconds));
  if (code === "UNSUPPORTED_MEDIA_TYPE") c.header("Accept-Encoding", "identity");
  if (code === "SERVICE_UNAVAILABLE") c.header("Retry-After", "1");
  const body = {
    error: sentence,
    code: toWireCode(code),
    ...(fields && { details: fields.map(({ field, error }) => ({ field, error })) }),
    ...(id && { id }),
  };
  return c.json(body, statusOf(code) as ContentfulStatusCode);
}
