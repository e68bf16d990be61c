/** @jsxImportSource hono/jsx */
/** The bundle of a license and its models for one machine. Its answer is a file. */
import * as v from "valibot";
import { parsedField } from "../../base/rule.ts";
import { MODEL_NAMES } from "../../models/bundles/mod.ts";
import { action } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { downloadBundle } from "./download_bundle.ts";
import {
  EXPORT_ENTRIES,
  ExportEnd,
  ExportFields,
  proofForExport,
  ReloadHint,
  refuseExportDays,
} from "./export_form.tsx";
import { HELP_GROUP, isActive, type KeyAction, uuidOf } from "./key_action.ts";

export const makeBundle: KeyAction = action({
  name: "bundle",
  scope: "keys:issue",
  label: "Make bundle",
  group: HELP_GROUP,
  submit: "Download the bundle",
  isDownload: true,
  fits: isActive,
  Form: (props) => (
    <>
      <ExportEnd {...props} />
      <p>
        The bundle is a tar file for a machine without a network: the license, the models that it may load,
        and a signed list of them. A later suspension or revocation does not end its license. Each download
        signs another license. If the license has a number of machines, the machine below gets a place until
        the end of the license in the bundle, also if it is released earlier.
      </p>
      <ExportFields {...props} />
      <TextField
        {...props.field("models")}
        label="Models (optional)"
        hint="Their names, separated by commas; none for no model. By default all that the license may load and that are hosted here."
      />
      <ReloadHint of={props.of} />
    </>
  ),
  entries: { ...EXPORT_ENTRIES, models: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(MODEL_NAMES))) },
  proofFor: proofForExport,
  async perform(change) {
    const { of, fields, by, visit } = change;
    const refused = refuseExportDays(change);
    if (refused !== undefined) return refused;
    return await downloadBundle({ keyUuid: uuidOf(of), ...fields, ...by, key: of.key }, visit);
  },
});
