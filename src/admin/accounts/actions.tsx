/** @jsxImportSource hono/jsx */
/** The actions that the page of an account offers. */
import * as v from "valibot";
import { toDay } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { refuse } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import {
  type Account,
  isErased,
  nameFor,
  type Renewable,
  type RenewedLicense,
  renewAccount,
  TEXT_RULES,
  updateAccount,
} from "../../licensing/mod.ts";
import { type Action, action } from "../frame/console/action.ts";
import { FromTo, MOST_LISTED } from "../frame/console/components/changes.tsx";
import { TextField } from "../frame/console/components/form.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { Foreign } from "../frame/console/components/values.tsx";
import { EMAIL, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";

/** With more keys, counting the licenses that a renewal changes would delay the page. */
export const MAX_RENEWED = 1_000;

export interface ShownAccount extends Account {
  /** Undefined for an account with more than {@linkcode MAX_RENEWED} keys. */
  readonly renewable: Renewable | undefined;
}

type AccountAction = Action<ShownAccount>;

const change: AccountAction = action({
  name: "change",
  scope: "accounts:write",
  label: "Change",
  group: "Change the account",
  submit: "Change the account",
  fits: (account) => !isErased(account),
  Form: ({ of: { name, email, organization }, field }) => (
    <>
      <TextField {...field("name", name === nameFor(email) ? "" : name)} label="Name" />
      <TextField {...field("organization", organization)} label="Organization" />
    </>
  ),
  entries: {
    name: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(TEXT_RULES.name))),
    organization: v.pipe(TEXT, parsedField(TEXT_RULES.organization)),
  },
  perform: ({ of: { uuid, email }, fields: { name = nameFor(email), organization }, by, visit }) =>
    updateAccount(visit.options.database, { uuid, name, organization, ...by }),
  done: { "account.update": describeUpdated },
});

function describeUpdated({ name, email, organization }: Account): string {
  const names = `Name: ${name === nameFor(email) ? "none" : name}. Organization: ${organization || "none"}.`;
  return `The account was changed. E-mail: ${email}. ${names}`;
}

const changeEmail: AccountAction = action({
  name: "email",
  scope: "accounts:write",
  label: "Change the e-mail",
  group: "Change the account",
  submit: "Change the e-mail",
  // Whoever has the account's e-mail is taken for the customer.
  needsFreshProof: true,
  fits: (account) => !isErased(account),
  Form: ({ of: { email, name, keys }, field }) => (
    <>
      <p>
        Everything stays with the account: licenses, keys, machines, custom models and history.{" "}
        {keys > 0 &&
          `${counted(keys, "key")} of it answer${keys === 1 ? "s" : ""} with the new e-mail within a second. `}
        {name === nameFor(email) && "The name repeats the e-mail, and follows. "}
        From then on <Foreign text={email} /> names no account: a key that is issued for it gets a new
        account.
      </p>
      <TextField {...field("email")} label="New e-mail" type="email" required />
    </>
  ),
  entries: { email: EMAIL },
  perform: ({ of: { uuid }, fields: { email }, by, visit }) =>
    updateAccount(visit.options.database, { uuid, email, ...by }),
  done: { "account.update": describeUpdated },
});

const CHANGED_MEANWHILE = refuse(
  "CONFLICT",
  "Nothing was renewed: the licenses were changed after the page was opened; look at their expiries again",
);

const EXPIRIES = [
  {
    label: "License",
    cell: ({ licenseUuid }: RenewedLicense) => <code class="id">{toId("lic", licenseUuid)}</code>,
  },
  {
    label: "Expiry",
    cell: ({ from, expiresAt }: RenewedLicense) => <FromTo from={toDay(from)} to={toDay(expiresAt)} />,
  },
];

/** Adds a year to every license. */
const renew: AccountAction = action({
  name: "renew",
  scope: "keys:manage",
  label: "Renew by a year",
  group: "Help the customer",
  submit: "Renew every license",
  fits: (account) => !isErased(account) && (account.renewable?.licenses ?? []).length > 0,
  Form: ({ of: { renewable: { licenses, version } = NOTHING_RENEWABLE } }) => (
    <>
      <p>
        {licenses.length === 1 ? "One license gets" : `${renderCount(licenses.length)} licenses get`}
        {" another year. "}A license that has expired gets a year from now. Licenses that never expire, that
        were renewed in the last 24 hours, or whose keys are all revoked, stay as they are.
      </p>
      <Table
        caption={
          licenses.length > MOST_LISTED ? `What will change: the first ${MOST_LISTED}` : "What will change"
        }
        columns={EXPIRIES}
        rows={licenses.slice(0, MOST_LISTED)}
      />
      <input type="hidden" name="version" value={version} />
    </>
  ),
  // The version of the licenses that the page showed, so that a form that is sent twice renews once.
  entries: { version: v.pipe(TEXT, v.regex(/^[0-9a-f]{32}$/, "must be the version on the page")) },
  async perform({ of: { uuid }, fields: { version }, by, visit }) {
    const renewed = await renewAccount(visit.options.licenseChanges, uuid, { ...by, version });
    return renewed.length === 0 ? CHANGED_MEANWHILE : renewed;
  },
  done: { "license.renew": "Licenses of the account were renewed." },
});

const NOTHING_RENEWABLE: Renewable = { licenses: [], version: "" };

/** The actions in the order of the page. */
export const ACCOUNT_ACTIONS = [renew, change, changeEmail];

/** Says why the page has no form that renews the licenses. */
export function RenewalHint({ of: { id, renewable } }: { readonly of: ShownAccount }) {
  if (renewable === undefined) {
    return (
      <p class="hint">
        The account has more than {renderCount(MAX_RENEWED)} keys: the command{" "}
        <code>claviger accounts renew {id}</code> renews their licenses.
      </p>
    );
  }
  if (renewable.licenses.length > 0) return null;
  return (
    <p class="hint">
      No license can be renewed now: each one never expires, was renewed in the last 24 hours, or has only
      revoked keys.
    </p>
  );
}
