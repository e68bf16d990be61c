/** @jsxImportSource hono/jsx */
/** One account: its facts, licenses, use and history, and what can be changed. */
import { type AuditRow, listAudit } from "../../../audit/mod.ts";
import { monthOf } from "../../../calendar.ts";
import { parseId } from "../../../ids.ts";
import { type KeySummary, listKeys } from "../../../keys/mod.ts";
import {
  type Account,
  findAccount,
  findRenewable,
  isErased,
  type Renewable,
} from "../../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../../refusal.ts";
import { renderCount } from "../../../render_count.ts";
import { escapeControls } from "../../../text/mod.ts";
import { findUsageByMonth, type UseOfMonth } from "../../../usage/mod.ts";
import type { Attempt } from "../attempt.ts";
import { Action, Actions, Done, fieldsOf, ReasonField, RepeatField } from "../components/action.tsx";
import { Bars } from "../components/charts.tsx";
import { TextField } from "../components/form.tsx";
import { History } from "../components/history.tsx";
import { Heading, Notice } from "../components/layout.tsx";
import { Facts, Table } from "../components/table.tsx";
import { Day, Foreign, State, Used } from "../components/values.tsx";
import { cutText, MOST_OF_NAME } from "../cut_text.ts";
import type { Page } from "../page.tsx";
import type { Visit } from "../visit.ts";

/** The newest keys and rows of the audit log that the page shows. */
const MAX_KEYS = 50;
/** With more keys, counting what a renewal changes would delay the page. */
const MAX_RENEWED = 1_000;
/** With more keys, adding up their use of a year would delay the page: each license has a row in every month. */
const MAX_ADDED_UP = 500;
const MAX_ROWS = 20;

const SENTENCES = {
  changed: "The account was changed.",
  same: "Nothing changed: the account had these values already.",
  renewed: "The licenses were renewed by a year.",
  erased: "Name, e-mail and organization were removed.",
} as const;
export type AccountDone = keyof typeof SENTENCES;

/** Finds the account of the path; `what` is what cannot be done without it. */
export async function accountOf({ options, params }: Visit, what: string): Promise<Account | Refusal> {
  const uuid = parseId("usr", params.id ?? "");
  const account = uuid === undefined ? undefined : await findAccount(options.database, { uuid });
  return account ?? refuse("NOT_FOUND", `Cannot ${what}: no account has that id`);
}

/** The page of an account. After a refused form, `attempt` is what was refused. */
export async function accountPage(visit: Visit, attempt?: Attempt): Promise<Page | Refusal> {
  const { options, now, query } = visit;
  const { database } = options;
  const account = await accountOf(visit, "show account");
  if (isRefusal(account)) return account;
  const accountUuid = account.uuid;
  const [keys, months, log, renewable] = await Promise.all([
    listKeys(database, { now, filter: { accountUuid, newestFirst: true, limit: MAX_KEYS } }),
    account.keys > MAX_ADDED_UP && !query.has("use")
      ? undefined
      : findUsageByMonth(database, accountUuid, monthOf(now.getTime())),
    listAudit(database, { accountUuid, limit: MAX_ROWS }),
    account.keys > MAX_RENEWED ? undefined : findRenewable(database, accountUuid, { now }),
  ]);
  return {
    title: escapeControls(account.email),
    ...(attempt && { code: attempt.code }),
    body: (
      <AccountBody
        visit={visit}
        account={account}
        attempt={attempt}
        renewable={renewable}
        keys={keys}
        months={months}
        log={log}
      />
    ),
  };
}

interface AccountProps {
  readonly visit: Visit;
  readonly account: Account;
  readonly attempt: Attempt | undefined;
  /** Undefined if the account has too many keys. */
  readonly renewable: Renewable | undefined;
  readonly keys: readonly KeySummary[];
  /** Undefined if the account has too many keys, and nobody asked for them. */
  readonly months: readonly UseOfMonth[] | undefined;
  readonly log: readonly AuditRow[];
}

function AccountBody({ keys, months, log, ...offer }: AccountProps) {
  const { visit, account, attempt } = offer;
  const { now, query } = visit;
  const { id, name, email, organization, createdAt } = account;
  return (
    <>
      <Heading title={escapeControls(email)}>
        {visit.may("keys:issue") && !isErased(account) && (
          <a class="button" href={`/console/keys/issue?${new URLSearchParams({ email })}`}>
            Issue a key
          </a>
        )}
      </Heading>
      <Done query={query} sentences={SENTENCES} />
      {attempt && !isOffered(attempt.action, offer) && <Notice kind="bad">{attempt.sentence}.</Notice>}
      {isErased(account) && (
        <Notice kind="warning">The person was erased from this account. The counts stay.</Notice>
      )}
      <Facts
        facts={[
          ["Account id", <code>{id}</code>],
          ["Name", <Foreign text={name} />],
          [
            "Organization",
            organization === "" ? <span class="muted">none</span> : <Foreign text={organization} />,
          ],
          ["Created", <Day at={createdAt} now={now} />],
          ["Keys", <a href={`/console/keys?account=${id}`}>{renderCount(account.keys)}</a>],
        ]}
      />
      <Changes {...offer} />
      {months ? (
        <Bars
          caption="Inferences by month, over all licenses"
          columnName="Month"
          valueName="Inferences"
          series={months.map(({ month, used }) => ({ label: month, value: used }))}
          empty="No inference was reported in the last twelve months."
        />
      ) : (
        <p class="hint">
          The account has more than {renderCount(MAX_ADDED_UP)} keys, so adding up their use may take some
          seconds. <a href={`/console/accounts/${id}?use=year`}>Show the inferences by month</a>
        </p>
      )}
      <Licenses account={account} keys={keys} now={now} />
      <History rows={log} now={now} isCut={log.length === MAX_ROWS} query={`account=${id}`} hasKeys />
    </>
  );
}

type Offer = Pick<AccountProps, "visit" | "account" | "attempt" | "renewable">;

function isRenewable(renewable: Renewable | undefined): renewable is Renewable {
  return renewable !== undefined && renewable.licenses > 0;
}

/** Whether the page has the form of an action: another operator may have made the change already. */
function isOffered(action: string, { account, renewable }: Offer): boolean {
  return !isErased(account) && (action !== "renew" || isRenewable(renewable));
}

function Changes({ visit, account, attempt, renewable }: Offer) {
  if (isErased(account)) return null;
  const path = `/console/accounts/${account.id}`;
  const given = { attempt };
  const field = fieldsOf("change", attempt);
  return (
    <>
      <Actions>
        {visit.may("accounts:write") && (
          <Action name="change" label="Change" path={`${path}/change`} submit="Change the account" {...given}>
            <TextField {...field("name", account.name)} label="Name" required maxlength={200} />
            <TextField
              {...field("organization", account.organization)}
              label="Organization"
              maxlength={200}
            />
            <ReasonField action="change" {...given} />
          </Action>
        )}
        {visit.may("keys:manage") && isRenewable(renewable) && (
          <Action
            name="renew"
            label="Renew by a year"
            path={`${path}/renew`}
            submit="Renew every license"
            {...given}
          >
            <p>
              {renewable.licenses === 1
                ? "One license gets"
                : `${renderCount(renewable.licenses)} licenses get`}
              {" another year. "}A license that has expired gets a year from now. Licenses that never expire,
              that were renewed in the last 24 hours, or whose keys are all revoked, stay as they are.
            </p>
            <input type="hidden" name="version" value={renewable.version} />
            <ReasonField action="renew" {...given} />
          </Action>
        )}
        {visit.may("accounts:erase") && (
          <Action
            name="erase"
            label="Erase"
            path={`${path}/erase`}
            submit="Erase the person"
            isFinal
            {...given}
          >
            <p>
              This removes name, e-mail and organization for good, and keeps the counts of use. All keys of
              the account must be revoked before. Do not name the person in the reason.
            </p>
            <RepeatField action="erase" what="the e-mail" text={account.email} {...given} />
            <ReasonField action="erase" {...given} />
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

interface License extends Pick<KeySummary, "licenseId" | "externalId" | "tier" | "used" | "monthlyLimit"> {
  readonly licenseExpiresAt: Date;
  readonly keys: readonly KeySummary[];
}

function Licenses({ account, keys, now }: Pick<AccountProps, "account" | "keys"> & { readonly now: Date }) {
  const groups = [...Map.groupBy(keys, ({ licenseId }) => licenseId).values()];
  const licenses = groups.flatMap((group) => (group[0] ? [{ ...group[0], keys: group }] : []));
  return (
    <section aria-labelledby="licenses">
      <h2 id="licenses">Licenses</h2>
      {licenses.length === 0 ? (
        <p class="empty">This account has no license.</p>
      ) : (
        <Table caption="Newest first" columns={columnsAt(now)} rows={licenses} />
      )}
      {keys.length < account.keys && (
        <p>
          {`These are the licenses of the ${MAX_KEYS} newest keys. `}
          <a href={`/console/keys?account=${account.id}`}>Show all keys</a>
        </p>
      )}
    </section>
  );
}

function columnsAt(now: Date) {
  return [
    {
      label: "License",
      cell: ({ licenseId, externalId }: License) => (
        <>
          <code class="id">{licenseId}</code>
          {externalId !== null && (
            <span class="more">
              <Foreign text={cutText(externalId, MOST_OF_NAME)} />
            </span>
          )}
        </>
      ),
    },
    { label: "Tier", cell: ({ tier }: License) => tier },
    {
      label: "Used this month",
      isNumeric: true,
      cell: ({ used, monthlyLimit }: License) => <Used used={used} limit={monthlyLimit} />,
    },
    { label: "Expires", cell: ({ licenseExpiresAt }: License) => <Day at={licenseExpiresAt} now={now} /> },
    { label: "Keys", cell: ({ keys }: License) => <Keys keys={keys} /> },
  ];
}

function Keys({ keys }: Pick<License, "keys">) {
  return (
    <ul class="plain">
      {keys.map(({ id, hint, state, mode }) => (
        <li>
          <a href={`/console/keys/${id}`}>
            <code>{hint}</code>
          </a>{" "}
          <State state={state} />
          {mode === "test" && " test"}
        </li>
      ))}
    </ul>
  );
}
