/** @jsxImportSource hono/jsx */
/** The actions that the page of a key offers. Actions that the role or the key's state forbids are left out. */
import type { Child } from "hono/jsx";
import { NEVER_EXPIRES, toTimestamp } from "../../calendar.ts";
import type { KeySummary } from "../../keys/mod.ts";
import { isErased, oneYearAfter, TIERS } from "../../licensing/mod.ts";
import type { Scope } from "../../operators/mod.ts";
import { EXPORT_DAYS } from "../../signed_licenses/mod.ts";
import type { Attempt } from "../frame/console/attempt.ts";
import { Action, Actions, fieldsOf } from "../frame/console/components/action.tsx";
import { Choice, Select, TextField } from "../frame/console/components/form.tsx";
import { toTierChoice } from "../frame/console/tier_choice.ts";
import type { Visit } from "../frame/console/visit.ts";

interface FormProps {
  readonly of: KeySummary;
  readonly field: ReturnType<typeof fieldsOf>;
  readonly now: Date;
}

interface Offer {
  readonly name: string;
  readonly label: string;
  readonly submit: string;
  /** By default `keys:manage`. */
  readonly scope?: Scope;
  readonly isFinal?: true;
  readonly isDownload?: true;
  /** Whether the state of the key allows it. */
  fits(key: KeySummary): boolean;
  Form(props: FormProps): Child;
}

const isOpen = ({ state }: KeySummary) => state !== "revoked";
const isActive = ({ state }: KeySummary) => state === "active";
/** The actions that a key of an erased account still has. All others are refused, because it gets no key that works. */
const FOR_ERASED = ["suspend", "external-id", "license", "revoke"];

/** Each action has a route with its name. */
const OFFERS: readonly Offer[] = [
  {
    ...{ name: "suspend", label: "Suspend", submit: "Suspend the key", fits: isActive },
    Form: () => <p>The service refuses the key until someone resumes it.</p>,
  },
  {
    ...{ name: "resume", label: "Resume", submit: "Resume the key" },
    fits: ({ state }) => state === "suspended",
    Form: () => <p>The service accepts the key again.</p>,
  },
  { name: "renew", label: "Renew", submit: "Renew the license", fits: isOpen, Form: RenewForm },
  { name: "tier", label: "Change tier", submit: "Change the tier", fits: isOpen, Form: TierForm },
  { name: "limit", label: "Change limit", submit: "Change the limit", fits: isOpen, Form: LimitForm },
  {
    ...{ name: "external-id", label: "Change external id", submit: "Change the external id" },
    ...{ fits: isOpen, Form: ExternalIdForm },
  },
  {
    ...{ name: "rotate", label: "Rotate", submit: "Issue the new key", Form: RotateForm },
    fits: (key) => isActive(key) && key.replacedBy === null,
  },
  {
    ...{ name: "license", label: "Export license file", submit: "Download the file", isDownload: true },
    ...{ scope: "keys:issue", fits: isActive, Form: LicenseForm },
  },
  {
    ...{ name: "revoke", label: "Revoke", submit: "Revoke the key", isFinal: true },
    ...{ scope: "keys:revoke", fits: isOpen, Form: RevokeForm },
  },
];

interface OfKey {
  readonly of: KeySummary;
  readonly visit: Visit;
}

/** Tells whether the page offers an action. */
export function isOffered(action: string, { of, visit }: OfKey): boolean {
  return OFFERS.some(
    ({ name, scope = "keys:manage", fits }) =>
      name === action && visit.may(scope) && fits(of) && (!isErased(of) || FOR_ERASED.includes(name)),
  );
}

/** The actions of a key. The parameter `open` of the address opens one of them. */
export function KeyActions({ of, visit, attempt }: OfKey & { readonly attempt: Attempt | undefined }) {
  const offered = OFFERS.filter(({ name }) => isOffered(name, { of, visit }));
  if (offered.length === 0) return null;
  const opened = attempt?.action ?? visit.query.get("open");
  return (
    <Actions>
      {offered.map(({ name, label, submit, isFinal, isDownload, Form }) => (
        <Action
          name={name}
          label={label}
          submit={submit}
          isFinal={isFinal ?? false}
          repeat={isFinal && { what: "the key id", text: of.id }}
          isDownload={isDownload ?? false}
          path={`/console/keys/${of.id}`}
          attempt={attempt}
          isOpen={opened === name}
        >
          <Form of={of} field={fieldsOf(name, attempt)} now={visit.now} />
        </Action>
      ))}
    </Actions>
  );
}

const FOR_ALL_KEYS = "The change applies to all keys of the license.";

function RenewForm({ of, field, now }: FormProps) {
  const { licenseExpiresAt: at } = of;
  const isEndless = at.getTime() === NEVER_EXPIRES.getTime();
  const proposed = oneYearAfter(isEndless || at < now ? now : at);
  return (
    <>
      <p>{FOR_ALL_KEYS}</p>
      <TextField
        {...field("last_day", toTimestamp(proposed).slice(0, 10))}
        label="Last day"
        type="date"
        hint="The keys work until the end of this day, UTC."
      />
      <Choice
        type="checkbox"
        name="never"
        value="yes"
        label="It never expires"
        checked={field("never").value === "yes"}
      />
    </>
  );
}

function TierForm({ of, field }: FormProps) {
  return (
    <>
      <p>{`${FOR_ALL_KEYS} A monthly limit of the license's own stays.`}</p>
      <Select {...field("tier", of.tier)} label="Tier" choices={TIERS.map(toTierChoice)} required />
    </>
  );
}

function LimitForm({ of, field }: FormProps) {
  return (
    <>
      <p>{FOR_ALL_KEYS}</p>
      <TextField
        {...field("monthly_limit", of.monthlyLimit === null ? "" : String(of.monthlyLimit))}
        label="Monthly limit"
        inputmode="numeric"
        hint="Inferences a month; empty for the tier's limit."
      />
    </>
  );
}

function ExternalIdForm({ of, field }: FormProps) {
  return (
    <TextField
      {...field("external_id", of.externalId ?? "")}
      label="External id"
      hint="Your own name for the license, such as an order number; empty for none."
      maxlength={255}
    />
  );
}

function RotateForm({ field }: FormProps) {
  return (
    <>
      <p>The license gets a second key, which is shown once. The old key works until the overlap ends.</p>
      <TextField
        {...field("overlap_days", "7")}
        label="Days of overlap"
        inputmode="numeric"
        hint="0 ends the old key at once."
      />
    </>
  );
}

function LicenseForm({ field }: FormProps) {
  return (
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
  );
}

function RevokeForm() {
  return (
    <p>
      <b>This cannot be undone.</b> The service refuses the key for good. To refuse it only for a while,
      suspend it.
    </p>
  );
}
