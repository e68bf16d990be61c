/** Reads forms of the console. Browsers send them with a length, so a body without one is refused unread. */
import { type Refusal, refuse } from "../../../base/refusal.ts";
import { BODY_LIMIT_BYTES, toBodyRefusal } from "../../../wire/mod.ts";

const TYPE = /^application\/x-www-form-urlencoded\s*(;|$)/i;
const WRONG_TYPE = refuse(
  "UNSUPPORTED_MEDIA_TYPE",
  "The body must be a form: application/x-www-form-urlencoded, with Content-Length and without Content-Encoding",
);

/** Reads the fields of a form. Refuses another type, a missing length, and a body of more than `limitBytes` bytes. */
export async function readForm(
  request: Request,
  limitBytes = BODY_LIMIT_BYTES,
): Promise<URLSearchParams | Refusal> {
  const { headers } = request;
  const bytes = Number(headers.get("content-length") ?? Number.NaN);
  const isForm = TYPE.test(headers.get("content-type") ?? "") && !headers.has("content-encoding");
  if (!isForm || Number.isNaN(bytes)) return WRONG_TYPE;
  if (bytes > limitBytes)
    return refuse("PAYLOAD_TOO_LARGE", `The form must have at most ${limitBytes} bytes`);
  return await request.text().then((text) => new URLSearchParams(text), toBodyRefusal);
}
