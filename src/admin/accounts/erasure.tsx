/** @jsxImportSource hono/jsx */
/** The erasure of an account: what it removes, what it keeps, and how far it is. */
import type { Child } from "hono/jsx";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { escapeControls } from "../../base/text/mod.ts";
import { MOST_COUNTED } from "../../database/mod.ts";
import {
  ERASURE_REQUEST_MS,
  type ErasureEffect,
  eraseWithKeys,
  findErasureEffect,
} from "../../licensing/keys/mod.ts";
import { type Account, findAccount, isErased } from "../../licensing/mod.ts";
import { findErasedMonth } from "../../usage/mod.ts";
import { accountFor } from "../frame/api/path_ids.ts";
import { type Action, action } from "../frame/console/action.ts";
import { Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Day, Foreign, NONE } from "../frame/console/components/values.tsx";
import type { DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";

const BOUND = { most: MOST_COUNTED };

interface Erasable extends Account {
  readonly effect: ErasureEffect;
}

const erase: Action<Erasable> = action({
  name: "erase",
  scope: "accounts:erase",
  label: "Erase",
  submit: "Revoke all keys and erase the person",
  isFinal: true,
  needsFreshProof: true,
  fits: (account) => !isErased(account),
  repeat: { what: "the e-mail", textOf: ({ email }) => email },
  Form: () => <p>Nothing brings back what is removed. Do not name the person in the reason.</p>,
  ends: ({ of: { effect } }) => effect.keysInUse,
  perform: ({ of: { uuid }, by, visit: { options } }) =>
    eraseWithKeys(options.licenseChanges, uuid, { ...by, revokesKeys: true, mostMs: ERASURE_REQUEST_MS }),
  done: {
    "account.erase": "All keys are revoked, and the person was erased.",
    "key.revoke":
      "Keys of the account were revoked: erase the account again to go on with the keys that are left.",
  },
});

export const ERASURE_PAGE: DetailPage<Erasable> = {
  path: "/accounts/:id/erasure",
  scope: "accounts:erase",
  addressOf: ({ id }) => `/accounts/${id}/erasure`,
  actions: [erase],
  async find(visit) {
    const account = await findNamed(visit);
    if (isRefusal(account)) return account;
    return { ...account, effect: await findErasureEffect(visit.options.database, account.uuid) };
  },
  async show(of, visit) {
    const { id, email, effect } = of;
    const month = await readErasedMonth(of, visit);
    const backups =
      "A backup has everything until you remove it. After a restore of an earlier backup, erase the account again.";
    return {
      title: isErased(of) ? "Erased account" : `Erase ${escapeControls(email)}`,
      isNarrow: true,
      above: (done) => (
        <>
          <ErasureNotice account={of} month={month} now={visit.now} done={done} />
          {!isErased(of) && <Removed of={of} />}
          <h2>What stays</h2>
          <ul>
            <li>
              the counts: {counted(effect.licenses, "license", BOUND)}, {counted(of.keys, "key")}, and their
              use
            </li>
            <li>
              <a href={`/console/audit?account=${id}`}>
                {counted(effect.auditRows, "row", BOUND)} of the audit log
              </a>
              {!isErased(of) && ", and those of this erasure"}, with their reasons, since nobody can change
              the log. They name the person only if a reason does; rows of versions before 0.4 have external
              ids.
            </li>
            <li>license files that were downloaded earlier: each one stays valid until it ends</li>
          </ul>
          <p>{backups}</p>
        </>
      ),
      below: <a href={`/console/accounts/${id}`}>Back to the account</a>,
    };
  },
};

/** Finds the account that the path of a page names. */
export async function findNamed({ options, params }: Visit): Promise<Account | Refusal> {
  const named = accountFor("show account").read(params);
  if (isRefusal(named)) return named;
  const account = await findAccount(options.database, { uuid: named.uuid });
  return account ?? refuse("NOT_FOUND", "Cannot show account: no account has that id");
}

function Removed({ of: { email, name, organization, effect } }: { readonly of: Erasable }) {
  return (
    <>
      <h2>What goes</h2>
      <Facts
        facts={[
          ["E-mail", <Foreign text={email} />],
          ["Name", name === email ? NONE : <Foreign text={name} />],
          organization !== "" && ["Organization", <Foreign text={organization} />],
          ["Keys to revoke", renderCount(effect.keysInUse, BOUND)],
          effect.formerEmails > 0 && ["Earlier e-mails", renderCount(effect.formerEmails, BOUND)],
          ["External ids", renderCount(effect.externalIds, BOUND)],
          ["Names of machines", renderCount(effect.machines, BOUND)],
          ["Events", "their texts and metadata, in the background"],
        ]}
      />
    </>
  );
}

interface NoticeProps {
  readonly account: Account;
  /** As {@linkcode readErasedMonth} returns it. */
  readonly month: string | undefined;
  readonly now: Date;
  /** What the last change has done. */
  readonly done: Child;
}

/** Reads the month whose events are being cleaned; undefined if the account waits for no cleaning. */
export async function readErasedMonth(account: Account, { options }: Visit): Promise<string | undefined> {
  const isWaiting = isErased(account) && account.textsErasedAt === null;
  return isWaiting ? await findErasedMonth(options.database) : undefined;
}

/** Says what the last change has done and, in the same box, how far the erasure of an account is. */
export function ErasureNotice({ account, month, now, done }: NoticeProps) {
  const { erasingSince, erasedAt, textsErasedAt } = account;
  if (!isErased(account)) {
    if (erasingSince === null) return <Notice kind="done">{done}</Notice>;
    return (
      <Notice kind="warning" isAnswer={done !== undefined}>
        {done ?? (
          <>
            The erasure that began on <Day at={erasingSince} now={now} /> is not complete: erase the account
            again to go on.
          </>
        )}{" "}
        It gets no new key.
      </Notice>
    );
  }
  return (
    <Notice kind={done === undefined ? "warning" : "done"}>
      {done ?? (
        <>The person was erased from this account{erasedAt && [" on ", <Day at={erasedAt} now={now} />]}.</>
      )}{" "}
      The counts stay.{" "}
      {textsErasedAt ? (
        <>
          The person's events have no texts and no metadata since <Day at={textsErasedAt} now={now} />.
        </>
      ) : (
        `The texts and metadata of the person's events are being removed${month ? `, up to ${month} so far` : ""}.`
      )}
    </Notice>
  );
}
