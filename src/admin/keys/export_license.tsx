/** @jsxImportSource hono/jsx */
/** The export of a signed license. Its answer is a file. */
import * as v from "valibot";
import { isRefusal } from "../../refusal.ts";
import { parsedField } from "../../rule.ts";
import {
  EXPORT_DAYS,
  NONCE,
  renderExport,
  SIGNED_FINGERPRINT,
  USUAL_EXPORT_DAYS,
} from "../../signed_licenses/mod.ts";
import { action } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { HELP, isActive, type KeyAction, uuidOf } from "./key_action.ts";

export const exportLicense: KeyAction = action({
  name: "license",
  scope: "keys:issue",
  label: "Export license file",
  group: HELP,
  submit: "Download the file",
  toMany: true,
  isDownload: true,
  fits: isActive,
  Form: ({ field }) => (
    <>
      <p>
        The file proves the license without a network. A later suspension or revocation does not end the file.
        Each download signs another license. If the license has a number of machines, the machine below gets a
        place until the end of the file, also if it is released earlier.
      </p>
      <TextField
        {...field("days", String(USUAL_EXPORT_DAYS))}
        label="Days of validity"
        inputmode="numeric"
        hint="At most until the license or the key expires."
      />
      <TextField
        {...field("fingerprint")}
        label="Machine (optional)"
        hint="The fingerprint of the only machine that may use the license. Needed if the license counts machines."
      />
      <TextField {...field("nonce")} label="Nonce (optional)" hint="A text that the license repeats." />
    </>
  ),
  entries: {
    days: v.pipe(TEXT, parsedField(EXPORT_DAYS)),
    fingerprint: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(SIGNED_FINGERPRINT))),
    nonce: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(NONCE))),
  },
  async perform({ of, fields, by, visit }) {
    const signed = await visit.options.licenseSigner.export({ keyUuid: uuidOf(of), ...fields, ...by });
    if (isRefusal(signed)) return signed;
    return new Response(renderExport(signed).file, {
      headers: {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Disposition": `attachment; filename="${of.key.id}.license"`,
      },
    });
  },
});
