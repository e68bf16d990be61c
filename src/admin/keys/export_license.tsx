/** @jsxImportSource hono/jsx */
/** The export of a signed license. Its answer is a file. */
import * as v from "valibot";
import { isRefusal } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import { NONCE, renderExport } from "../../licensing/signed_licenses/mod.ts";
import { action } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import {
  EXPORT_ENTRIES,
  ExportEnd,
  ExportFields,
  proofForExport,
  ReloadHint,
  refuseExportDays,
} from "./export_form.tsx";
import { HELP_GROUP, isActive, type KeyAction, uuidOf } from "./key_action.ts";

export const exportLicense: KeyAction = action({
  name: "license",
  scope: "keys:issue",
  label: "Export license file",
  group: HELP_GROUP,
  submit: "Download the file",
  toMany: true,
  isDownload: true,
  fits: isActive,
  Form: (props) => (
    <>
      <ExportEnd {...props} />
      <p>
        The file proves the license without a network. A later suspension or revocation does not end the file.
        Each download signs another license. If the license has a number of machines, the machine below gets a
        place until the end of the file, also if it is released earlier.
      </p>
      <ExportFields {...props} />
      <ReloadHint of={props.of} />
      <TextField
        {...props.field("nonce")}
        label="Text to repeat (optional)"
        hint="The license contains it, so that the program that asked for the file can tell it from an older one."
      />
    </>
  ),
  entries: { ...EXPORT_ENTRIES, nonce: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(NONCE))) },
  proofFor: proofForExport,
  async perform(change) {
    const { of, fields, by, visit } = change;
    const refused = refuseExportDays(change);
    if (refused !== undefined) return refused;
    const signed = await visit.options.licenseSigner.export({ keyUuid: uuidOf(of), ...fields, ...by });
    if (isRefusal(signed)) return signed;
    return new Response(renderExport(signed).file, {
      headers: {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Disposition": `attachment; filename="${of.key.id}.license"`,
      },
    });
  },
  done: {
    "license.export": (_, after) =>
      `The file was downloaded. It is valid until ${Object(after).expires_at.slice(0, 16).replace("T", " ")}.`,
  },
});
