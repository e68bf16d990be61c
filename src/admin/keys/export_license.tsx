/** @jsxImportSource hono/jsx */
/** The export of a signed license. Its answer is a file. */
import * as v from "valibot";
import { isRefusal } from "../../refusal.ts";
import { EXPORT_DAYS, renderExport } from "../../signed_licenses/mod.ts";
import { printableText } from "../../wire/mod.ts";
import { wholeNumberField } from "../frame/api/list_fields.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { isActive, keyAction, uuidOf } from "./key_action.ts";

export const exportLicense = keyAction({
  name: "license",
  scope: "keys:issue",
  label: "Export license file",
  submit: "Download the file",
  isDownload: true,
  fits: isActive,
  Form: ({ field }) => (
    <>
      <p>
        The file proves the license without a network. A later suspension or revocation does not end the file.
        Each download signs another license.
      </p>
      <TextField
        {...field("days", String(EXPORT_DAYS.usual))}
        label="Days of validity"
        inputmode="numeric"
        hint="At most until the license or the key expires."
      />
      <TextField
        {...field("fingerprint")}
        label="Machine (optional)"
        hint="The fingerprint of the only machine that may use the license."
        maxlength={128}
      />
      <TextField
        {...field("nonce")}
        label="Nonce (optional)"
        hint="A text that the license repeats."
        maxlength={128}
      />
    </>
  ),
  entries: {
    days: v.pipe(TEXT, wholeNumberField("days", EXPORT_DAYS.least, EXPORT_DAYS.most)),
    fingerprint: v.pipe(TEXT_OR_NOTHING, v.optional(printableText("fingerprint").wrapped)),
    nonce: v.pipe(TEXT_OR_NOTHING, v.optional(printableText("nonce").wrapped)),
  },
  async perform({ of, fields, by, visit }) {
    const signed = await visit.options.licenseSigner.export({ keyUuid: uuidOf(of), ...fields, ...by });
    if (isRefusal(signed)) return signed;
    return new Response(renderExport(signed).file, {
      headers: {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Disposition": `attachment; filename="${of.id}.license"`,
      },
    });
  },
});
