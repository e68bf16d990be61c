import * as v from "valibot";
import { described, identifier, timestamp } from "../../../base/answer_fields.ts";
import { titled } from "./route.ts";

/** A signed license for a customer without a network, as `renderExport` renders it. */
export const EXPORTED_LICENSE = titled("ExportedLicense", {
  license: described(v.string(), "A compact JWS"),
  file: described(v.string(), "The content of the file for the customer"),
  kid: described(v.string(), "The key that signed it"),
  jti: described(v.string(), "The id of this signed license"),
  expires_at: timestamp(),
  machine_id: described(v.nullable(identifier("mch")), "The machine, if the license counts machines"),
  warning: described(v.nullable(v.string()), "Says until when the machine keeps its place"),
  term_ends_at: described(
    v.nullable(timestamp()),
    "The end of the license, if its term began with this file; otherwise null",
  ),
});
