/** @jsxImportSource hono/jsx */
/** The page of a license: what the customer has bought, which keys, machines and files use it, and what can be changed. */
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { findKey, listKeys } from "../../licensing/keys/mod.ts";
import {
  describeOfflineDays,
  describePlaces,
  describeSelfReleases,
  describeShowsMachines,
  describeTerm,
  findLicense,
  isErased,
  isWaiting,
  type LicenseSummary,
  MAX_KEYS,
  refuseUnknownLicense,
} from "../../licensing/mod.ts";
import { listOutstanding } from "../../licensing/signed_licenses/mod.ts";
import { licenseFor } from "../frame/api/path_ids.ts";
import { History, readHistory } from "../frame/console/components/history.tsx";
import { Id } from "../frame/console/components/layout.tsx";
import { Facts, Table } from "../frame/console/components/table.tsx";
import {
  AccountLink,
  Ago,
  Day,
  Foreign,
  KeyLink,
  NONE,
  State,
  Used,
} from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { MachinesPanel, readMachines } from "../machines/machines.tsx";
import { LICENSE_ACTIONS } from "./actions.ts";
import { Features, Values } from "./grants.tsx";
import { type ActedKey, withTiers } from "./key_action.ts";
import { describeLimit } from "./license_fields.tsx";

/** How many signed licenses the page shows, the latest end first. */
const MOST_FILES = 20;

/** A license with the key through which the actions change it: the newest that is not revoked, or the newest one. */
interface ActedLicense extends ActedKey {
  readonly license: LicenseSummary;
}

export const LICENSE_PAGE: DetailPage<ActedLicense> = {
  path: "/licenses/:id",
  scope: "keys:read",
  addressOf: ({ license }) => `/licenses/${license.id}`,
  actions: LICENSE_ACTIONS,
  async find({ options: { database }, params, now }) {
    const named = licenseFor("show license").read(params);
    if (isRefusal(named)) return named;
    const license = await findLicense(database, named.uuid, { now });
    const newest = license?.keys.find(({ state }) => state !== "revoked") ?? license?.keys[0];
    const key = newest && (await findKey(database, { uuid: parseId("key", newest.id) ?? "" }, { now }));
    return license && key
      ? await withTiers(database, { license, key })
      : refuseUnknownLicense(named.what, named.uuid);
  },
  show: showLicense,
};

async function showLicense({ license, key }: ActedLicense, visit: Visit): Promise<Detail> {
  const { options, now } = visit;
  const { database } = options;
  const of = { license: license.id };
  const licenseUuid = parseId("lic", license.id) ?? "";
  const uuids = license.keys.map(({ id }) => parseId("key", id) ?? "");
  const [keys, files, history, machines] = await Promise.all([
    listKeys(database, { now, filter: { uuids, newestFirst: true } }),
    listOutstanding(database, { now, licenseUuid, limit: MOST_FILES }),
    readHistory(database, { licenseUuid }),
    readMachines(visit, of),
  ]);
  return {
    title: `License of ${isErased(license) ? "an erased account" : license.email}`,
    name: `(license of ${license.email})`,
    script: "submit_once",
    above: <LicenseFacts of={license} now={now} />,
    below: (
      <>
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
                cell: ({ lastUsedAt }) => (lastUsedAt ? <Ago at={lastUsedAt} now={now} /> : "never"),
              },
              { label: "Works until", cell: ({ expiresAt }) => <Day at={expiresAt} now={now} /> },
            ]}
            rows={keys}
          />
        </section>
        <MachinesPanel machines={machines} of={of} places={license.maxMachines} now={now} />
        <section aria-labelledby="files">
          <h2 id="files">Signed for use without a network</h2>
          <Table
            caption={
              files.length === MOST_FILES
                ? `The ${MOST_FILES} that end last`
                : "Still valid, the latest end first"
            }
            none={<p class="empty">No signed license of it is valid now.</p>}
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

function LicenseFacts({ of, now }: { readonly of: LicenseSummary; readonly now: Date }) {
  const { userId, email, externalId, tier, monthlyLimit, used, expiresAt, updatesUntil, createdAt } = of;
  return (
    <Facts
      facts={[
        ["License id", <Id id={of.id} />],
        ["Account", <AccountLink id={userId} email={email} />],
        ["External id", externalId === null ? NONE : <Foreign text={externalId} />],
        ["Tier", tier],
        ["Features", <Features of={of} now={now} />],
        ["Values", <Values of={of} />],
        ["Monthly limit", describeLimit(monthlyLimit)],
        ["Used this month", <Used used={used} limit={monthlyLimit} over={of.over} />],
        ["Machines", describePlaces(of)],
        ["Offline days", describeOfflineDays(of)],
        ["Releases by clients", describeSelfReleases(of)],
        ["Clients see names of machines", describeShowsMachines(of)],
        of.termDays !== null && ["Term", describeTerm(of, now)],
        [isWaiting(of, now) ? "Expires at the latest" : "Expires", <Day at={expiresAt} now={now} />],
        ["Updates until", updatesUntil ? <Day at={updatesUntil} now={now} /> : "every version"],
        ["Created", <Day at={createdAt} now={now} />],
      ]}
    />
  );
}
