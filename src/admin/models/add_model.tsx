/** @jsxImportSource hono/jsx */
/** The form that adds a model: its first version waits for a file, which is uploaded on the page of the model. */
import type { Context } from "hono";
import * as v from "valibot";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import { TIERS } from "../../licensing/mod.ts";
import { MODEL_RULES } from "../../models/mod.ts";
import { TIER_FIELD } from "../frame/api/fields.ts";
import { Field, optionsOf, Select, TextField } from "../frame/console/components/form.tsx";
import { Copyable } from "../frame/console/components/layout.tsx";
import { parseForm, TEXT } from "../frame/console/form_fields.ts";
import type { Page } from "../frame/console/page.tsx";
import { fieldsOf, type RefusedForm } from "../frame/console/refused_form.ts";
import { RefusalNotice } from "../frame/console/remedies.tsx";
import { form, page, showDone } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";
import { addAwaiting } from "./actions.tsx";
import { addCommand } from "./add_command.ts";
import { askForVersion, KNOWN_NAME_ENTRY, KnownNameField } from "./known_name.tsx";
import { NoAddress, uploadHint } from "./upload.tsx";

/** The name of no model begins with this character. */
export const ADD_PATH = "/models/_add";

/** The fields of the form. Their rules are those of the API. */
const ENTRIES = {
  name: v.pipe(TEXT, parsedField(MODEL_RULES.name)),
  version: v.pipe(TEXT, parsedField(MODEL_RULES.version)),
  type: v.pipe(TEXT, v.nonEmpty("must be chosen")),
  paradigm: v.pipe(TEXT, parsedField(MODEL_RULES.paradigm)),
  n_features: v.pipe(TEXT, parsedField(MODEL_RULES.nFeatures)),
  n_classes: v.pipe(TEXT, parsedField(MODEL_RULES.nClasses)),
  requires_license: v.pipe(TEXT, TIER_FIELD),
  ...KNOWN_NAME_ENTRY,
};

/** Adds the version, and leads to the page of the model. */
async function addModelOfForm(visit: Visit, c: Context<AdminEnv>): Promise<Page | Response> {
  const { form } = visit;
  const refused = (refusal: Refusal) => formPage(visit, { action: "add", form, refusal });
  const parsed = parseForm(ENTRIES, visit);
  if (isRefusal(parsed)) return refused(parsed);
  const {
    n_features: nFeatures,
    n_classes: nClasses,
    requires_license,
    add_version,
    ...same
  } = parsed.fields;
  const fields = { ...same, nFeatures, nClasses, requiresLicense: requires_license };
  const unasked = add_version ? undefined : await askForVersion(fields, visit);
  if (unasked !== undefined) return refused(unasked);
  const refusal = await addAwaiting(fields, { by: parsed.by, visit });
  if (refusal !== undefined) return refused(refusal);
  return showDone(c, `/models/${encodeURIComponent(same.name)}`, visit.actor.request);
}

function formPage(visit: Visit, refused?: RefusedForm): Page {
  const { may, options } = visit;
  const field = fieldsOf("add", refused);
  return {
    title: "Add a model",
    script: ["submit_once", "copy", "upload"],
    isNarrow: true,
    ...(refused && { code: refused.refusal.code }),
    body: (
      <>
        <NoAddress visit={visit} />
        {refused && <RefusalNotice refusal={refused.refusal} may={may} isOfForm />}
        <form method="post" action={`/console${ADD_PATH}`} data-uploads-after novalidate data-kept="">
          <TextField
            {...field("name")}
            autofocus={refused === undefined}
            label="Name"
            hint="Such as motor_imagery_4class. A model that has this name gets a further version."
            required
          />
          <TextField {...field("version", "1.0.0")} label="Version" required />
          <Select {...field("type")} label="Type" choices={optionsOf(options.brand.modelTypes)} required />
          <TextField {...field("paradigm")} label="Paradigm" hint="Such as motor_imagery or p300" required />
          <TextField {...field("n_features")} label="Features, such as 16" inputmode="numeric" required />
          <TextField {...field("n_classes")} label="Classes, such as 2" inputmode="numeric" required />
          <Select
            {...field("requires_license")}
            label="Lowest tier"
            choices={optionsOf(TIERS)}
            hint="Every key of this tier or a higher one sees the model."
            required
          />
          <KnownNameField field={field} />
          <div hidden>
            <Field
              label="File (optional)"
              name="file"
              hint={`${uploadHint(options)} Without a file here, the page of the model asks for it.`}
            >
              <input id="file" type="file" aria-describedby="file-hint" />
            </Field>
          </div>
          <div class="actions">
            <button type="submit">Add the model</button>
            <a href="/console/models">Cancel</a>
          </div>
        </form>
        <details class="add">
          <summary>Add it with a command</summary>
          <p>
            Copy the file to the host of the service, and run this command there with your values. The command{" "}
            <code>claviger models add --help</code> says what each option means.
          </p>
          <Copyable id="add-command" text={addCommand(options.brand)} label="Copy the command" />
        </details>
      </>
    ),
  };
}

export const ADD_ROUTES = [
  page(ADD_PATH, "models:write", (visit) => formPage(visit)),
  form(ADD_PATH, "models:write", addModelOfForm),
];
