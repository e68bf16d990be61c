/** @jsxImportSource hono/jsx */
/** The form that issues a token. The answer shows the token; no other page ever does. */
import * as v from "valibot";
import { DAY_AS_END, END } from "../../base/calendar.ts";
import { parsedField, someOf, wordField } from "../../base/rule.ts";
import { MODES, TIERS } from "../../licensing/mod.ts";
import {
  issueToken,
  NAME_RULE,
  PRESET_NAMES,
  PRESETS,
  SCOPE_MEANINGS,
  SCOPES,
  SOURCES_RULE,
  scopesOfToken,
  toRestriction,
} from "../../operators/mod.ts";
import { MODE_FIELD } from "../frame/api/fields.ts";
import { type Action, action, type FormProps } from "../frame/console/action.ts";
import {
  CheckBoxes,
  choicesOf,
  optionsOf,
  RadioButtons,
  Select,
  TextField,
} from "../frame/console/components/form.tsx";
import { refuseFields, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { showOnce } from "./token.tsx";

export const issue: Action<object> = action({
  name: "issue-token",
  scope: "admin",
  label: "Issue a token",
  submit: "Issue the token",
  needsFreshProof: true,
  Form: ({ field }) => (
    <>
      <p>Give each program a token of its own, with no more scopes than it needs. The token is shown once.</p>
      <TextField
        {...field("name")}
        label="Name"
        hint="The audit log names the program so, such as shop. No name is used twice."
        required
      />
      <RadioButtons {...field("preset", "")} label="What the program does" choices={PRESET_CHOICES} />
      <ScopesField {...field("scopes")} />
      <CheckBoxes
        {...field("tiers")}
        label="Tiers (optional)"
        hint="It sees, changes and issues only keys of these; none: all tiers."
        choices={optionsOf(TIERS)}
      />
      <Select {...field("mode")} label="Mode of the keys" choices={choicesOf(MODES)} />
      <TextField
        {...field("from")}
        label="Addresses and networks (optional)"
        hint="Only requests from these, such as 10.0.0.0/8, separated by commas; empty: from everywhere."
      />
      <TextField
        {...field("expires_at")}
        label="Expires (optional)"
        hint={`A day or a time such as 2027-01-31T12:00:00Z; ${DAY_AS_END}; empty: never.`}
      />
    </>
  ),
  entries: {
    name: v.pipe(TEXT, parsedField(NAME_RULE)),
    preset: v.pipe(TEXT_OR_NOTHING, v.optional(wordField(PRESET_NAMES))),
    scopes: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(someOf(SCOPES)))),
    tiers: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(someOf(TIERS)))),
    mode: v.pipe(TEXT_OR_NOTHING, v.optional(MODE_FIELD)),
    from: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(SOURCES_RULE))),
    expires_at: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(END))),
  },
  async perform({ fields: { name, tiers, mode, from: sources, expires_at: expiresAt, ...of }, by, visit }) {
    const { database, brand } = visit.options;
    const scopes = scopesOfToken(of);
    if (scopes.length === 0)
      return refuseFields([{ field: "scopes", error: NO_SCOPE }], "No token was issued");
    const request = { name, scopes, restriction: toRestriction({ scopes, tiers, mode }), sources, expiresAt };
    return showOnce(await issueToken(database, request, { ...by, brand }), name, visit);
  },
});

const NO_SCOPE = "Choose what the program does, or at least one scope";

const PRESET_CHOICES = [
  ...optionsOf(PRESET_NAMES, (name) => `${name}: ${PRESETS[name].meaning}`),
  { value: "", label: "Something else: choose its scopes below" },
];

/** The scopes, folded: a preset has those that its program needs. */
function ScopesField(field: ReturnType<FormProps<object>["field"]>) {
  return (
    <details open={Boolean(field.value ?? field.error)}>
      <summary>Scopes</summary>
      <ul class="hint">
        {PRESET_NAMES.map((name) => (
          <li>{`${name}: ${PRESETS[name].scopes.join(", ")}`}</li>
        ))}
      </ul>
      <CheckBoxes
        {...field}
        label="Scopes beside those above"
        choices={optionsOf(SCOPES, (scope) => `${scope}: ${SCOPE_MEANINGS[scope]}`)}
      />
    </details>
  );
}
