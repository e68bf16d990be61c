/** @jsxImportSource hono/jsx */
/** One account: its facts, licenses, use and history, and what can be changed. */
import { type Month, monthOf, toMonth, toMonthText } from "../../base/calendar.ts";
import { isRefusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { type KeySummary, listKeys } from "../../licensing/keys/mod.ts";
import { type Account, describePlaces, FOR_ALL_KEYS, findRenewable, isErased } from "../../licensing/mod.ts";
import { listMuted } from "../../notices/mod.ts";
import { findUsageByMonth } from "../../usage/mod.ts";
import { Bars, compareYear } from "../frame/console/components/charts.tsx";
import { History, readHistory } from "../frame/console/components/history.tsx";
import { KeysRefusedNow } from "../frame/console/components/keys_refused_now.tsx";
import { Id, IssueButton } from "../frame/console/components/layout.tsx";
import { Facts, numeric, Table } from "../frame/console/components/table.tsx";
import {
  Day,
  Foreign,
  KeyLink,
  LicenseLink,
  Lines,
  NONE,
  nameOfCustomer,
  State,
  Used,
} from "../frame/console/components/values.tsx";
import { cutText, MOST_OF_NAME } from "../frame/console/cut_text.ts";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import { toOpenForm } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import { MachinesPanel, readMachines } from "../machines/machines.tsx";
import { MutedNote } from "../notices/muted.tsx";
import { ACCOUNT_ACTIONS, MAX_RENEWED, RenewalHint, type ShownAccount } from "./actions.tsx";
import { ErasureNotice, findNamed, readErasedMonth } from "./erasure.tsx";

/** How many keys the page reads, the newest first. */
const MAX_KEYS = 50;
/** How many keys the page shows: few, so that the actions below them are near the top. */
const MAX_SHOWN = 10;
/**
 * With more keys the page does not add up their use of a year, because that takes too long: each license has a row in
 * every month.
 */
const MAX_ADDED_UP = 500;

export const ACCOUNT_PAGE: DetailPage<ShownAccount> = {
  path: "/accounts/:id",
  scope: "accounts:read",
  addressOf: ({ id }) => `/accounts/${id}`,
  actions: ACCOUNT_ACTIONS,
  doneElsewhere: { "license.tier": `${FOR_ALL_KEYS}.` },
  async find(visit) {
    const account = await findNamed(visit);
    if (isRefusal(account)) return account;
    const { options, now } = visit;
    const isLarge = account.keys > MAX_RENEWED;
    return {
      ...account,
      renewable: isLarge ? undefined : await findRenewable(options.database, account.uuid, { now }),
    };
  },
  show: showAccount,
};

async function showAccount(account: ShownAccount, visit: Visit): Promise<Detail> {
  const { options, now, query, may } = visit;
  const { database } = options;
  const { id, uuid: accountUuid, name, email, organization, createdAt } = account;
  const of = { account: id };
  const month = monthOf(now.getTime());
  const isAddedUp = account.keys <= MAX_ADDED_UP || query.has("use");
  const findYear = (last: Month) => findUsageByMonth(database, accountUuid, last);
  const [keys, years, log, machines, erasedMonth, muted] = await Promise.all([
    listKeys(database, { now, filter: { accountUuid, newestFirst: true, limit: MAX_KEYS } }),
    isAddedUp ? Promise.all([findYear(toMonth(month.index - 12)), findYear(month)]) : undefined,
    readHistory(database, { accountUuid }),
    readMachines(visit, of),
    readErasedMonth(account, visit),
    listMuted(database, { about: { accountUuid } }),
  ]);
  const columns = years?.flat().map(({ month: label, used }) => ({
    label,
    values: [used],
    isOpen: label === toMonthText(month),
  }));
  const over = years?.[1].reduce((sum, month) => sum + month.over, 0) ?? 0;
  return {
    title: nameOfCustomer(account),
    what: "Account",
    under: (
      <>
        Account <Foreign text={email} />, <Id id={id} />
      </>
    ),
    beside: may("keys:issue") && !isErased(account) && account.erasingSince === null && (
      <IssueButton query={`?${new URLSearchParams({ email })}`} />
    ),
    above: (done) => (
      <>
        <ErasureNotice account={account} month={erasedMonth} now={now} done={done} />
        <KeysRefusedNow of="account" keys={keys} now={now} />
        <MutedNote muted={muted} visit={visit} />
        <Facts
          facts={[
            ["Name", name === email ? NONE : <Foreign text={name} />],
            ["Organization", organization === "" ? NONE : <Foreign text={organization} />],
            ["Created", <Day at={createdAt} now={now} />],
            ["Keys", <a href={`/console/keys?account=${id}`}>{renderCount(account.keys)}</a>],
          ]}
        />
        <Licenses account={account} keys={keys.slice(0, MAX_SHOWN)} now={now} may={may} />
      </>
    ),
    below: (
      <>
        {may("accounts:erase") && !isErased(account) && (
          <div class="changes">
            <section>
              <h2>Remove the person</h2>
              <div>
                <a class="opens ending" href={`/console/accounts/${id}/erasure?open=erase#title`}>
                  Erase…
                </a>
              </div>
            </section>
          </div>
        )}
        {may("keys:manage") && !isErased(account) && <RenewalHint of={account} />}
        {columns ? (
          <Bars
            caption="Inferences by month, over all licenses"
            columnName="Month"
            parts={["Inferences"]}
            series={columns.slice(-12)}
            unit="inferences"
            compared={compareYear(columns)}
            empty="No inference was reported in the last twelve months."
          />
        ) : (
          <p class="hint">
            The account has more than {renderCount(MAX_ADDED_UP)} keys, so adding up their use may take some
            seconds. <a href={`/console/accounts/${id}?use=year`}>Show the inferences by month</a>
          </p>
        )}
        {over > 0 && (
          <p class="hint">
            {`${renderCount(over)} more were beyond the limits in these months, as imported reports say.`}
          </p>
        )}
        <MachinesPanel machines={machines} of={of} now={now} />
        <History rows={log} now={now} query={`account=${id}`} />
      </>
    ),
  };
}

interface LicensesProps {
  readonly account: Account;
  readonly keys: readonly KeySummary[];
  readonly now: Date;
}

function Licenses({ account, keys, now, may }: LicensesProps & Pick<Visit, "may">) {
  const groups = [...Map.groupBy(keys, ({ licenseId }) => licenseId).values()];
  const licenses = groups.flatMap((group) => (group[0] ? [{ ...group[0], keys: group }] : []));
  return (
    <section aria-labelledby="licenses">
      <h2 id="licenses">Licenses</h2>
      <Table
        caption="Newest first"
        none={<p class="empty">This account has no license.</p>}
        columns={[
          {
            label: "License",
            cell: ({ licenseId, externalId }) => (
              <Lines
                text={<LicenseLink id={licenseId} />}
                more={externalId !== null && <Foreign text={cutText(externalId, MOST_OF_NAME)} />}
              />
            ),
          },
          {
            label: "Tier",
            cell: ({ tier, maxMachines, seatMinutes }) => (
              <Lines
                text={tier}
                more={maxMachines !== null && describePlaces({ maxMachines, seatMinutes })}
              />
            ),
          },
          numeric("Used this month", ({ used, monthlyLimit }) => <Used used={used} limit={monthlyLimit} />),
          {
            label: "Expires",
            needs: "middle",
            cell: ({ licenseExpiresAt }) => <Day at={licenseExpiresAt} now={now} />,
          },
          { label: "Keys", cell: ({ keys }) => <Keys of={account} keys={keys} may={may} /> },
        ]}
        rows={licenses}
      />
      {keys.length < account.keys && (
        <p>
          {`These are the licenses of the ${MAX_SHOWN} newest keys. `}
          <a href={`/console/keys?account=${account.id}`}>Show all keys</a> or{" "}
          <a href={`/console/keys?account=${account.id}&refused_now=true`}>those that are refused now</a>
        </p>
      )}
    </section>
  );
}

interface KeysProps extends Pick<LicensesProps, "keys">, Pick<Visit, "may"> {
  readonly of: Account;
}

/** The keys of a license, and the link that changes its tier and leads back. */
function Keys({ of, keys, may }: KeysProps) {
  const key = keys.find(({ state }) => may("keys:manage") && state !== "revoked");
  return (
    <>
      <ul class="plain">
        {keys.map((key) => (
          <li>
            <KeyLink id={key.id} text={key.hint} /> <State of={key} />
            {key.mode === "test" && " test"}
          </li>
        ))}
      </ul>
      {key && (
        <a href={toOpenForm(`/console/licenses/${key.licenseId}`, "tier", `/accounts/${of.id}`)}>
          Change tier
        </a>
      )}
    </>
  );
}
