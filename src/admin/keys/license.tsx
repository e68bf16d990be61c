/** @jsxImportSource hono/jsx */
/**
 * The page of a license: what the customer has bought and uses, its keys and machines, what was sent for use without a
 * network, who changed what, and what can be changed.
 */
import { monthOf } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { findKey, listKeys } from "../../licensing/keys/mod.ts";
import {
  describeOfflineDays,
  describePlaces,
  describeSelfReleases,
  describeShowsMachines,
  describeTerm,
  findLicense,
  isWaiting,
  type LicenseSummary,
  MAX_KEYS,
  refuseUnknownLicense,
} from "../../licensing/mod.ts";
import { listOutstanding } from "../../licensing/signed_licenses/mod.ts";
import { listMuted } from "../../notices/mod.ts";
import { MONTH_ENTRY } from "../frame/api/fields.ts";
import { licenseFor } from "../frame/api/path_ids.ts";
import { History, readHistory } from "../frame/console/components/history.tsx";
import { KeysRefusedNow } from "../frame/console/components/keys_refused_now.tsx";
import { Folded, Id } from "../frame/console/components/layout.tsx";
import { Facts, Table } from "../frame/console/components/table.tsx";
import {
  AccountLink,
  Ago,
  Day,
  Foreign,
  KeyLink,
  NONE,
  nameOfCustomer,
  State,
  Used,
} from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import { DETAIL_ENTRIES, type Detail, type DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { MachinesPanel, readMachines } from "../machines/machines.tsx";
import { MutedNote } from "../notices/muted.tsx";
import { LICENSE_ACTIONS } from "./actions.ts";
import { Features, Values } from "./grants.tsx";
import { type ActedKey, countKeys, withTiers } from "./key_action.ts";
import { describeLimit } from "./license_fields.tsx";
import { LicenseUse, readUse } from "./license_use.tsx";

/** How many signed licenses the page shows, the latest end first. */
const MOST_FILES = 20;

/** A license with the key through which the actions change it: the newest that is not revoked, or the newest one. */
interface ActedLicense extends ActedKey {
  readonly license: LicenseSummary;
  readonly machines: Awaited<ReturnType<typeof readMachines>>;
}

export const LICENSE_PAGE: DetailPage<ActedLicense> = {
  path: "/licenses/:id",
  scope: "keys:read",
  addressOf: ({ license }) => `/licenses/${license.id}`,
  actions: LICENSE_ACTIONS,
  async find(visit) {
    const { options, params, now } = visit;
    const { database } = options;
    const named = licenseFor("show license").read(params);
    if (isRefusal(named)) return named;
    const license = await findLicense(database, named.uuid, { now });
    const newest = license?.keys.find(({ state }) => state !== "revoked") ?? license?.keys[0];
    const key = newest && (await findKey(database, { uuid: parseId("key", newest.id) ?? "" }, { now }));
    if (license === undefined || key === undefined) return refuseUnknownLicense(named.what, named.uuid);
    const machines = await readMachines(visit, { license: license.id });
    const counts = { keysOfLicense: countKeys(license), taken: machines?.taken };
    return await withTiers(database, { license, key, machines, ...counts });
  },
  show: showLicense,
};

async function showLicense(
  { license, key, machines }: ActedLicense,
  visit: Visit,
): Promise<Detail | Refusal> {
  const { options, now, query } = visit;
  const { values } = readConditions(query, { ...MONTH_ENTRY, ...DETAIL_ENTRIES });
  if (isRefusal(values)) return values;
  const { month = monthOf(now.getTime()) } = values;
  const { database } = options;
  const of = { license: license.id };
  const licenseUuid = parseId("lic", license.id) ?? "";
  const uuids = license.keys.map(({ id }) => parseId("key", id) ?? "");
  const accountUuid = parseId("usr", license.userId) ?? "";
  const [use, keys, files, history, muted] = await Promise.all([
    readUse(visit, { of: license, month }),
    listKeys(database, { now, filter: { uuids, newestFirst: true } }),
    listOutstanding(database, { now, licenseUuid, limit: MOST_FILES }),
    readHistory(database, { licenseUuid }),
    listMuted(database, { about: { licenseUuid, accountUuid } }),
  ]);
  return {
    title: nameOfCustomer(license),
    what: `License …${license.id.slice(-6)}`,
    under: <Under of={license} />,
    name: `(license of ${license.email})`,
    script: "submit_once",
    above: (
      <>
        <KeysRefusedNow of="license" keys={keys} now={now} />
        <MutedNote muted={muted} visit={visit} />
        <LicenseFacts of={license} now={now} />
      </>
    ),
    below: (
      <>
        <LicenseDetails of={license} now={now} />
        <LicenseUse of={license} now={now} {...use} />
        <section aria-labelledby="keys">
          <h2 id="keys">Keys</h2>
          <Table
            caption={license.keys.length === MAX_KEYS ? `The newest ${MAX_KEYS}` : "Newest first"}
            columns={[
              { label: "Key", cell: ({ id, hint }) => <KeyLink id={id} text={hint} /> },
              { label: "State", cell: (each) => <State of={each} /> },
              { label: "Mode", cell: ({ mode }) => mode },
              {
                label: "Last used",
                needs: "middle",
                cell: ({ lastUsedAt }) => (lastUsedAt ? <Ago at={lastUsedAt} now={now} /> : "never"),
              },
              { label: "Works until", cell: ({ expiresAt }) => <Day at={expiresAt} now={now} /> },
            ]}
            rows={keys}
          />
        </section>
        <MachinesPanel machines={machines} of={of} places={license.maxMachines} now={now} />
        <section aria-labelledby="files">
          <h2 id="files">Signed licenses that still work</h2>
          <Table
            caption={
              files.length === MOST_FILES
                ? `Signed for use without a network: the ${MOST_FILES} that end last`
                : "Signed for use without a network and still valid, the latest end first"
            }
            none={<p class="muted">No license that was signed for use without a network is valid now.</p>}
            columns={[
              { label: "Key", cell: ({ keyId }) => <KeyLink id={keyId} text={hintOf(keys, keyId)} /> },
              {
                label: "How",
                cell: ({ kind, count }) =>
                  kind === "exported" ? "a file that was exported" : `fetched ${counted(count, "time")}`,
              },
              { label: "Signed", cell: ({ signedAt }) => <Ago at={signedAt} now={now} /> },
              { label: "Valid until", cell: ({ expiresAt }) => <Day at={expiresAt} now={now} /> },
            ]}
            rows={files}
          />
        </section>
        <History rows={history} now={now} query={`key=${key.id}`} />
      </>
    ),
  };
}

function hintOf(keys: readonly { readonly id: string; readonly hint: string }[], keyId: string): string {
  return keys.find(({ id }) => id === keyId)?.hint ?? keyId;
}

function Under({ of: { id, userId, email, externalId } }: { readonly of: LicenseSummary }) {
  return (
    <>
      License <Id id={id} /> of <AccountLink id={userId} email={email} />
      {externalId !== null && (
        <>
          , external id <Foreign text={externalId} />
        </>
      )}
    </>
  );
}

interface LicenseProps {
  readonly of: LicenseSummary;
  readonly now: Date;
}

function LicenseFacts({ of, now }: LicenseProps) {
  const { tier, monthlyLimit, used, expiresAt, updatesUntil } = of;
  return (
    <section class="sees" aria-labelledby="has">
      <h2 id="has">What the customer has</h2>
      <Facts
        facts={[
          ["Tier", tier],
          [isWaiting(of, now) ? "Expires at the latest" : "Expires", <Day at={expiresAt} now={now} />],
          ["Used this month", <Used used={used} limit={monthlyLimit} over={of.over} />],
          ["Machines", describePlaces(of)],
          ["Features", <Features of={of} now={now} />],
          ["Values", <Values of={of} />],
          of.termDays !== null && ["Term", describeTerm(of, now)],
          updatesUntil !== null && ["Updates until", <Day at={updatesUntil} now={now} />],
        ]}
      />
    </section>
  );
}

function LicenseDetails({ of, now }: LicenseProps) {
  return (
    <Folded summary="Limits and details">
      <Facts
        facts={[
          ["Monthly limit", describeLimit(of.monthlyLimit)],
          ["Offline days", describeOfflineDays(of)],
          ["Releases by clients", describeSelfReleases(of)],
          ["Clients see names of machines", describeShowsMachines(of)],
          of.updatesUntil === null && ["Updates", "every version"],
          of.externalId === null && ["External id", NONE],
          ["Created", <Day at={of.createdAt} now={now} />],
        ]}
      />
    </Folded>
  );
}
