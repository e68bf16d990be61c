/** @jsxImportSource hono/jsx */
/** The rotation of a key. Its answer shows the new key; no other page ever does. */
import * as v from "valibot";
import { DAY_MS, MOST_SPAN_DAYS, SPAN } from "../../calendar.ts";
import { rotateKey, USUAL_OVERLAP } from "../../keys/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { parsedField, wholeNumber } from "../../rule.ts";
import { action } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { Copyable, Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago, KeyLink } from "../frame/console/components/values.tsx";
import { TEXT } from "../frame/console/form_fields.ts";
import { HELP, isActive, type KeyAction, mayStay, uuidOf } from "./key_action.ts";

const USUAL_DAYS = String((SPAN.parse(USUAL_OVERLAP) ?? 0) / DAY_MS);

export const rotate: KeyAction = action({
  name: "rotate",
  scope: "keys:manage",
  label: "Rotate",
  group: HELP,
  submit: "Issue the new key",
  fits: (of) => isActive(of) && mayStay(of) && of.key.replacedBy === null,
  Form: ({ field }) => (
    <>
      <p>The license gets a second key, which is shown once. The old key works until the overlap ends.</p>
      <TextField
        {...field("overlap_days", USUAL_DAYS)}
        label="Days of overlap"
        inputmode="numeric"
        hint="0 ends the old key at once."
      />
    </>
  ),
  entries: { overlap_days: v.pipe(TEXT, parsedField(wholeNumber(0, MOST_SPAN_DAYS))) },
  async perform({ of, fields, by, visit }) {
    const { licenseChanges, brand } = visit.options;
    const { key: old } = of;
    const rotation = { uuid: uuidOf(of), mode: old.mode, overlapMs: fields.overlap_days * DAY_MS };
    const rotated = await rotateKey(licenseChanges, rotation, { brand, ...by });
    if (isRefusal(rotated)) return rotated;
    const path = `/console/keys/${rotated.id}`;
    return {
      title: "Key rotated",
      script: ["issued", "copy"],
      isNarrow: true,
      body: (
        <>
          <Notice kind="good">
            <p>
              <b>Copy the new key now.</b> It is shown only once: only its hash is stored.
            </p>
            <Copyable id="api-key" text={rotated.apiKey} label="Copy the key" />
          </Notice>
          <Facts
            facts={[
              ["New key id", <code>{rotated.id}</code>],
              ["Old key", <KeyLink id={old.id} text={old.hint} />],
              ["The old key works until", <Ago at={rotated.oldWorksUntil} now={by.now} />],
            ]}
          />
          <div class="actions">
            <a class="button" href={path} data-reload={path}>
              Show the new key's page
            </a>
          </div>
        </>
      ),
    };
  },
});
