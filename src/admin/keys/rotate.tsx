/** @jsxImportSource hono/jsx */
/** The rotation and the replacement of a key. The answer shows the new key; no other page ever does. */
import * as v from "valibot";
import { DAY_MS, MOST_SPAN_DAYS, SPAN, toDay } from "../../base/calendar.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { parsedField, wholeNumber } from "../../base/rule.ts";
import { replaceKey, rotateKey, USUAL_OVERLAP } from "../../licensing/keys/mod.ts";
import { isErased, isWaiting } from "../../licensing/mod.ts";
import { action, type Change } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { Id, Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { AccountLink, Day, KeyLink } from "../frame/console/components/values.tsx";
import { TEXT } from "../frame/console/form_fields.ts";
import type { Page } from "../frame/console/page.tsx";
import { toOpenForm } from "../frame/console/route.ts";
import {
  type ActedKey,
  HELP_GROUP,
  isActive,
  type KeyAction,
  mayStay,
  takenOf,
  uuidOf,
} from "./key_action.ts";
import { NewKey } from "./new_key.tsx";
import { Remains, RemainsAfter, remainsOf } from "./remains.tsx";

const USUAL_MS = SPAN.parse(USUAL_OVERLAP) ?? 0;
const USUAL_DAYS = String(USUAL_MS / DAY_MS);

export const rotate: KeyAction = action({
  name: "rotate",
  scope: "keys:manage",
  label: "Rotate",
  group: HELP_GROUP,
  submit: "Issue the new key",
  fits: (of) => isActive(of) && mayStay(of) && of.key.replacedBy === null,
  Form: ({ of, field, now }) => (
    <>
      <p>The license gets a second key, which is shown once. The old key works until the overlap ends.</p>
      <Remains of={of} now={now} />
      <TextField
        {...field("overlap_days", USUAL_DAYS)}
        label="Days of overlap"
        inputmode="numeric"
        hint={`0 ends the old key at once: ${whoStops(of)} until they have the new one. ${USUAL_DAYS} days end it on ${toDay(new Date(now.getTime() + USUAL_MS))}, or with its license if that is earlier.`}
      />
    </>
  ),
  entries: { overlap_days: v.pipe(TEXT, parsedField(wholeNumber(0, MOST_SPAN_DAYS))) },
  ends: ({ fields }) => (fields.overlap_days === 0 ? 1 : 0),
  perform({ fields, ...change }) {
    const overlapMs = fields.overlap_days * DAY_MS;
    return makeSuccessor(change, (changes, old, by) => rotateKey(changes, { ...old, overlapMs }, by));
  },
});

export const replace: KeyAction = action({
  name: "replace",
  scope: "keys:manage",
  label: "Replace the key",
  group: HELP_GROUP,
  submit: "Issue the new key",
  fits: ({ key }) => key.state === "revoked" && key.replacedBy === null && !isErased(key),
  Form: ({ of, now }) => (
    <>
      <p>
        The license gets a new key, which is shown once. Its tier, limits, external id, expiry and use stay.
        The revoked key stays revoked.
      </p>
      <Remains of={of} now={now} />
    </>
  ),
  perform: (change) => makeSuccessor(change, replaceKey),
});

/** Says whom the end of the old key stops, and how many machines that can be. */
function whoStops(of: ActedKey): string {
  const taken = takenOf(of);
  const machines =
    of.key.maxMachines === null || taken === 0
      ? ""
      : ` (${counted(taken, "machine")} ${taken === 1 ? "holds a place" : "hold places"})`;
  return `all programs that use it${machines} are refused`;
}

/** Makes the next key of a license, and returns the page that shows it. */
async function makeSuccessor(
  { of, by, visit: { options } }: Change<ActedKey>,
  make: typeof replaceKey,
): Promise<Page | Refusal> {
  const { key: old } = of;
  const { now } = by;
  const { licenseChanges, brand } = options;
  const made = await make(licenseChanges, { uuid: uuidOf(of), mode: old.mode }, { brand, ...by });
  if (isRefusal(made)) return made;
  const { id, apiKey } = made;
  const oldWorksUntil = old.state === "revoked" ? undefined : made.oldWorksUntil;
  const path = `/console/keys/${id}`;
  return {
    title: oldWorksUntil === undefined ? "Key replaced" : "Key rotated",
    script: ["issued", "copy"],
    isNarrow: true,
    body: (
      <>
        <NewKey
          {...old}
          id={id}
          apiKey={apiKey}
          expiresAt={old.licenseExpiresAt}
          old={{ hint: old.hint, worksUntil: oldWorksUntil }}
          term={isWaiting(old, now) ? old : undefined}
          now={now}
          options={options}
        />
        <h2>What was issued</h2>
        <Facts
          facts={[
            ["New key id", <Id id={id} />],
            ["Account", <AccountLink id={old.userId} email={old.email} />],
            ["Tier, mode", `${old.tier}, ${old.mode}`],
            ["Expires", <Day at={old.licenseExpiresAt} now={now} />],
            ["Old key", <KeyLink id={old.id} text={old.hint} />],
          ]}
        />
        {remainsOf(of) && (
          <p>
            Of the old key: <RemainsAfter of={of} />
          </p>
        )}
        {old.licenseExpiresAt <= now && (
          <Notice kind="warning">
            The license has expired: <a href={toOpenForm(path, "renew")}>renew it</a>, so that the key works.
          </Notice>
        )}
        <div class="actions">
          <a class="button" href={path}>
            Show the new key's page
          </a>
        </div>
      </>
    ),
  };
}
