/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { toDay } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { type IssueRequest, issueKey, listKeys } from "../../licensing/keys/mod.ts";
import {
  describePlaces,
  describeTerm,
  MODES,
  monthlyLimitOf,
  type NewEnd,
  OWN_ENTITLEMENTS,
  OWN_FEATURES,
  oneYearAfter,
  planEnd,
  renderEntitlements,
  renderOwnFeatures,
  TEXT_RULES,
} from "../../licensing/mod.ts";
import { refuseOldProof } from "../../operators/mod.ts";
import { EXTERNAL_ID_FIELD, MODE_FIELD, TIER_FIELD } from "../frame/api/fields.ts";
import type { FormProps } from "../frame/console/action.ts";
import { optionsOf, RadioButtons, Select, TextField } from "../frame/console/components/form.tsx";
import { Folded, Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { AccountLink, Day, Foreign, KeyLink } from "../frame/console/components/values.tsx";
import { EMAIL, parseForm, refuseFields, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import type { Page } from "../frame/console/page.tsx";
import { fieldsOf, MOST_ENTERED, type RefusedForm } from "../frame/console/refused_form.ts";
import { RefusalNotice } from "../frame/console/remedies.tsx";
import type { Visit } from "../frame/console/visit.ts";
import {
  EXPIRY_ENTRIES,
  ExpiryFields,
  expiryOf,
  LIMIT_ENTRY,
  LimitField,
  OFFLINE_DAYS_ENTRY,
  OfflineDaysField,
  PLACES_ENTRIES,
  PlacesFields,
  proofForDays,
  proofForEnd,
  TERM_ENTRIES,
  TermFields,
  TIER_CHOICES,
  UPDATES_ENTRY,
  UpdatesField,
  ValuesField,
} from "./license_fields.tsx";
import { NewKey } from "./new_key.tsx";

const MOST_LISTED = 20;

/** The fields of the form. Their rules are those of the API. */
const ENTRIES = {
  email: EMAIL,
  tier: v.pipe(TEXT, TIER_FIELD),
  name: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(TEXT_RULES.name))),
  organization: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(TEXT_RULES.organization))),
  external_id: v.pipe(TEXT_OR_NOTHING, v.optional(EXTERNAL_ID_FIELD)),
  mode: v.pipe(TEXT, MODE_FIELD),
  ...EXPIRY_ENTRIES,
  ...TERM_ENTRIES,
  ...LIMIT_ENTRY,
  ...PLACES_ENTRIES,
  ...OFFLINE_DAYS_ENTRY,
  ...UPDATES_ENTRY,
  own_features: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(OWN_FEATURES))),
  own_entitlements: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(OWN_ENTITLEMENTS))),
};

/** Parses the form, or refuses it with the first error of each wrong field. */
function parseIssueRequest(visit: Visit): IssueRequest | Refusal {
  const { now } = visit;
  const parsed = parseForm(ENTRIES, visit);
  const end = endOfForm(visit);
  if (isRefusal(parsed) || isRefusal(end)) {
    const wrong = [parsed, end].flatMap((part) => (isRefusal(part) ? (part.fields ?? []) : []));
    return refuseFields(wrong, "No key was issued");
  }
  const { email, tier, name, organization, mode, external_id: externalId } = parsed.fields;
  const { monthly_limit: monthlyLimit, max_machines: maxMachines, seat_minutes: seatMinutes } = parsed.fields;
  const { updates_until: updatesUntil, own_features: ownFeatures } = parsed.fields;
  const own = { ownFeatures, ownEntitlements: parsed.fields.own_entitlements };
  const { self_releases: selfReleases, shows_machines: showsMachines } = parsed.fields;
  const allowances = { maxMachines, seatMinutes, selfReleases, showsMachines };
  const terms = { ...allowances, maxOfflineDays: parsed.fields.max_offline_days, updatesUntil, ...own };
  return { email, tier, name, organization, mode, externalId, monthlyLimit, ...terms, ...end, now };
}

/**
 * Returns the end of the license: its last day, or a term, which has none. The form proposes a last day, so that is left out
 * with a term.
 */
function endOfForm(visit: Visit): NewEnd | Refusal {
  const { form, now } = visit;
  const term = parseForm(TERM_ENTRIES, visit);
  // The refusal of the whole form has the same errors.
  if (isRefusal(term)) return refuseFields([]);
  const { term_days: termDays, latest_start: latestStart } = term.fields;
  const startsOnFirstUse = form.has("starts_on_first_use");
  const what = "issue key";
  if (startsOnFirstUse || termDays !== undefined || latestStart !== undefined)
    return planEnd({ startsOnFirstUse, termDays, latestStart }, { what, now, usual: oneYearAfter(now) });
  const never = form.get("never") ?? undefined;
  const expiresAt = expiryOf({ last_day: form.get("last_day") ?? "", never }, now);
  return isRefusal(expiresAt) ? expiresAt : { expiresAt };
}

/** The form that issues a key. A link to it can fill some fields. */
export function issueFormPage(visit: Visit): Page {
  const { now, query } = visit;
  return formPage(visit, {
    email: query.get("email")?.slice(0, MOST_ENTERED),
    tier: query.get("tier")?.slice(0, MOST_ENTERED),
    // So that the key works for at least a year.
    last_day: toDay(oneYearAfter(now)),
  });
}

/** Issues a key. The answer shows it; no other page ever does. */
export async function issueKeyOfForm(visit: Visit): Promise<Page> {
  const { options, actor, form, now } = visit;
  const again = (refusal: Refusal) => formPage(visit, {}, { action: "issue", form, refusal });
  const request = parseIssueRequest(visit);
  if (isRefusal(request)) return again(request);
  const usual = options.licenseSigner.offlineDays[request.tier];
  const proof = proofForEnd(request.expiresAt, now) ?? proofForDays(request.maxOfflineDays, { usual });
  const unproven = proof && refuseOldProof(visit.session, now, proof);
  if (unproven) return again(unproven);
  const issued = await issueKey(options.database, request, { brand: options.brand, actor });
  if (isRefusal(issued)) return again(issued);
  const { maxMachines = null, seatMinutes = null, ownFeatures, ownEntitlements } = request;
  const accountUuid = parseId("usr", issued.userId);
  const filter = { accountUuid, newestFirst: true, limit: MOST_LISTED };
  const keys = await listKeys(options.database, { now, filter });
  const tiers = [...new Map(keys.map(({ licenseId, tier }) => [licenseId, tier])).values()];
  const limit = request.monthlyLimit ?? monthlyLimitOf(request.tier);
  return {
    title: "Key issued",
    script: ["issued", "copy"],
    isNarrow: true,
    body: (
      <>
        <NewKey
          {...issued}
          {...request}
          name={keys.find(({ id }) => id === issued.id)?.name}
          term={request.term && { ...request.term, startedAt: null }}
          now={now}
          options={options}
        />
        {tiers.length > 1 && (
          <Notice kind="warning">
            {`Added to an existing account, which now has ${keys.length < MOST_LISTED ? "" : "at least "}`}
            {`${tiers.length} licenses: ${tiers.join(", ")}. `}
            <a href={`/console/accounts/${issued.userId}`}>Show the account</a>
          </Notice>
        )}
        <h2>What was issued</h2>
        <Facts
          facts={[
            ["Key id", <KeyLink id={issued.id} />],
            ["Account", <AccountLink id={issued.userId} email={request.email} />],
            request.externalId === undefined ? null : ["External id", <Foreign text={request.externalId} />],
            ["Tier, mode", `${request.tier}, ${request.mode}`],
            ["Monthly limit", limit === null ? "unlimited" : renderCount(limit)],
            maxMachines === null ? null : ["Machines", describePlaces({ maxMachines, seatMinutes })],
            request.term !== undefined && ["Term", describeTerm({ ...request.term, startedAt: null })],
            [request.term ? "Expires at the latest" : "Expires", <Day at={issued.expiresAt} now={now} />],
            request.updatesUntil !== undefined && [
              "Updates until",
              <Day at={request.updatesUntil} now={now} />,
            ],
            ownFeatures !== undefined && ["Features beside the tier", renderOwnFeatures(ownFeatures)],
            ownEntitlements !== undefined && [
              "Values",
              <Foreign text={renderEntitlements(ownEntitlements)} />,
            ],
          ]}
        />
        <div class="actions">
          <a href="/console/keys/issue">Issue another key</a>
          <a href="/console/keys">Show all keys</a>
        </div>
      </>
    ),
  };
}

/** The proposed text of each field. */
type Proposed = Readonly<Record<string, string | undefined>>;

const PATH = "/keys/issue";

function formPage({ may, options }: Visit, proposed: Proposed, refused?: RefusedForm): Page {
  const fieldOf = fieldsOf("issue", refused);
  const field = (name: string) => ({
    ...fieldOf(name, proposed[name]),
    autofocus: !(refused ?? proposed[name]),
  });
  return {
    title: "Issue a key",
    script: "submit_once",
    isNarrow: true,
    ...(refused && { code: refused.refusal.code }),
    body: (
      <>
        <form method="post" action={`/console${PATH}`} novalidate data-kept="">
          {refused && (
            <RefusalNotice
              refusal={refused.refusal}
              may={may}
              page={PATH}
              isOfForm
              provider={options.provider?.name}
            />
          )}
          <TextField
            {...field("email")}
            label="E-mail of the account"
            type="email"
            hint="A new account is made for a new e-mail."
            required
          />
          <Select {...field("tier")} label="Tier" choices={TIER_CHOICES} required />
          <TextField {...field("name")} label="Name (optional)" />
          <ExpiryFields
            field={fieldOf}
            proposed={proposed.last_day}
            hint="The key works until the end of this day, UTC."
          />
          <TermFields field={fieldOf} />
          <MoreFields field={(name, usual) => fieldOf(name, proposed[name] ?? usual)} />
          <div class="actions">
            <button type="submit">Issue the key</button>
            <a href="/console/keys">Cancel</a>
          </div>
        </form>
      </>
    ),
  };
}

/** The fields that few keys need, folded until one of them has a value of its own or is wrong. */
function MoreFields({ field }: Pick<FormProps<unknown>, "field">) {
  const isUsed = MORE.some((name) => {
    const { value = "", error } = field(name);
    return error !== undefined || (value !== "" && value !== USUAL[name]);
  });
  return (
    <Folded summary="More: organization, external id, mode, limits, machines, features" isOpen={isUsed}>
      <TextField {...field("organization")} label="Organization (optional)" />
      <TextField
        {...field("external_id")}
        label="External id (optional)"
        hint="Your own name for the license, such as an order number."
      />
      <RadioButtons
        {...field("mode", USUAL.mode)}
        label="Mode"
        hint="Test keys behave like live ones. The page Usage says what they used."
        choices={optionsOf(MODES)}
      />
      <LimitField field={field} label="Monthly limit (optional)" />
      <PlacesFields field={field} />
      <OfflineDaysField field={field} />
      <UpdatesField field={field} />
      <TextField
        {...field("own_features")}
        label="Features beside the tier (optional)"
        hint="Names separated by commas, such as custom_models until 2027-06-30, no streaming."
      />
      <ValuesField
        field={field}
        label="Values (optional)"
        hint="Such as channels=64, region=eu. They come before those of the tier."
      />
    </Folded>
  );
}

/** The names of the folded fields. */
const MORE = ["organization", "external_id", "mode"]
  .concat(Object.keys({ ...LIMIT_ENTRY, ...PLACES_ENTRIES, ...OFFLINE_DAYS_ENTRY, ...UPDATES_ENTRY }))
  .concat(["own_features", "own_entitlements"]);

/** What a folded field has before anything is entered. */
const USUAL: Readonly<Record<string, string>> = { mode: "live" };
