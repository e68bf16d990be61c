/** @jsxImportSource hono/jsx */
/** The changes that the page of an account offers. Changes that the role forbids are left out. */
import { type Account, isErased, type Renewable } from "../../licensing/mod.ts";
import { renderCount } from "../../render_count.ts";
import type { Attempt } from "../frame/console/attempt.ts";
import { Action, Actions, fieldsOf } from "../frame/console/components/action.tsx";
import { TextField } from "../frame/console/components/form.tsx";
import type { Visit } from "../frame/console/visit.ts";

/** With more keys, counting the licenses that a renewal changes would delay the page. */
export const MAX_RENEWED = 1_000;

export interface Offer {
  readonly visit: Visit;
  readonly account: Account;
  readonly attempt: Attempt | undefined;
  /** Undefined for an account with more than {@linkcode MAX_RENEWED} keys. */
  readonly renewable: Renewable | undefined;
}

function isRenewable(renewable: Renewable | undefined): renewable is Renewable {
  return renewable !== undefined && renewable.licenses > 0;
}

/** Whether the page has the form of an action: another operator may have made the change already. */
export function isOffered(action: string, { account, renewable }: Offer): boolean {
  return !isErased(account) && (action !== "renew" || isRenewable(renewable));
}

/** The forms of the changes that the role allows. */
export function Changes({ visit, account, attempt, renewable }: Offer) {
  if (isErased(account)) return null;
  const path = `/console/accounts/${account.id}`;
  const given = { path, attempt };
  const field = fieldsOf("change", attempt);
  return (
    <>
      <Actions>
        {visit.may("accounts:write") && (
          <Action name="change" label="Change" submit="Change the account" {...given}>
            <TextField {...field("name", account.name)} label="Name" required maxlength={200} />
            <TextField
              {...field("organization", account.organization)}
              label="Organization"
              maxlength={200}
            />
          </Action>
        )}
        {visit.may("keys:manage") && isRenewable(renewable) && (
          <Action name="renew" label="Renew by a year" submit="Renew every license" {...given}>
            <p>
              {renewable.licenses === 1
                ? "One license gets"
                : `${renderCount(renewable.licenses)} licenses get`}
              {" another year. "}A license that has expired gets a year from now. Licenses that never expire,
              that were renewed in the last 24 hours, or whose keys are all revoked, stay as they are.
            </p>
            <input type="hidden" name="version" value={renewable.version} />
          </Action>
        )}
        {visit.may("accounts:erase") && (
          <Action
            name="erase"
            label="Erase"
            submit="Erase the person"
            isFinal
            repeat={{ what: "the e-mail", text: account.email }}
            {...given}
          >
            <p>
              This removes name, e-mail and organization for good, and keeps the counts of use. All keys of
              the account must be revoked before. Do not name the person in the reason.
            </p>
          </Action>
        )}
      </Actions>
      {visit.may("keys:manage") && <RenewalHint id={account.id} renewable={renewable} />}
    </>
  );
}

/** Says why the page has no form that renews the licenses. */
function RenewalHint({ id, renewable }: { readonly id: string } & Pick<Offer, "renewable">) {
  if (renewable === undefined) {
    return (
      <p class="hint">
        The account has more than {renderCount(MAX_RENEWED)} keys: the command{" "}
        <code>claviger accounts renew {id}</code> renews their licenses.
      </p>
    );
  }
  if (renewable.licenses > 0) return null;
  return (
    <p class="hint">
      No license can be renewed now: each one never expires, was renewed in the last 24 hours, or has only
      revoked keys.
    </p>
  );
}
