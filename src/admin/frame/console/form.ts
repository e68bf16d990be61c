/** Reads forms of the console. Browsers send them with a length, so a body without one is refused unread. */
import { type Refusal, refuse } from "../../../refusal.ts";
import { BODY_LIMIT_BYTES, toBodyRefusal } from "../../../wire/mod.ts";

const TYPE = /^application\/x-www-form-urlencoded\s*(;|$)/i;
const WRONG_TYPE = refuse(
  "UNSUPPORTED_MEDIA_TYPE",
  "The body must be a form: application/x-www-form-urlencoded, with Content-Length and without Content-Encoding",
);
const TOO_LARGE = refuse("PAYLOAD_TOO_LARGE", `The form must have at most ${BODY_LIMIT_BYTES} bytes`);

/** Reads the fields of a form. */
export async function readForm(request: Request): Promise<URLSearchParams | Refusal> {
  const { headers } = request;
  const bytes = Number(headers.get("content-length") ?? Number.NaN);
  const isForm = TYPE.test(headers.get("content-type") ?? "") && !headers.has("content-encoding");
  if (!isForm || Number.isNaN(bytes)) return WRONG_TYPE;
  if (bytes > BODY_LIMIT_BYTES) return TOO_LARGE;
  return await request.text().then((text) => new URLSearchParams(text), toBodyRefusal);
}
