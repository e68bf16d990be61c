/** @jsxImportSource hono/jsx */
/** The page of a key: whose it is, why it works or does not, its history, and what an operator can change. */
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { explainKey, type KeyExplanation, type KeySummary } from "../../licensing/keys/mod.ts";
import { describePlaces, describeTerm, findLicense, refuseUnknownKey } from "../../licensing/mod.ts";
import { listFilesOf } from "../../licensing/signed_licenses/mod.ts";
import { findTextsToday, type TextsToday } from "../../usage/mod.ts";
import { keyFor } from "../frame/api/path_ids.ts";
import { History, readHistory } from "../frame/console/components/history.tsx";
import { Folded, Id } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import {
  AccountLink,
  Ago,
  Day,
  Foreign,
  KeyLink,
  LicenseLink,
  nameOfCustomer,
  Size,
  State,
} from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { MachinesPanel, readMachines } from "../machines/machines.tsx";
import { KEY_ACTIONS } from "./actions.ts";
import { type ActedKey, countKeys, uuidOf, withTiers } from "./key_action.ts";
import { CustomerSees, describeLimits, RefusalsOfKey } from "./key_answer.tsx";
import { Why } from "./key_why.tsx";

interface ShownKey extends KeyExplanation, ActedKey {
  readonly key: KeySummary;
  readonly machines: Awaited<ReturnType<typeof readMachines>>;
  /** The inferences of this month that reports had beyond the limit. */
  readonly over: number;
}

export const KEY_PAGE: DetailPage<ShownKey> = {
  path: "/keys/:id",
  scope: "keys:read",
  addressOf: ({ key }) => `/keys/${key.id}`,
  actions: KEY_ACTIONS,
  async find(visit) {
    const { options, params, now } = visit;
    const named = keyFor("show key").read(params);
    if (isRefusal(named)) return named;
    const { what, uuid } = named;
    const explained = await explainKey(options.database, uuid, { now });
    if (explained === undefined) return refuseUnknownKey(what, uuid);
    const { licenseId } = explained.key;
    const [shown, files, machines, license] = await Promise.all([
      withTiers(options.database, explained),
      listFilesOf(options.database, { keys: [explained.key], now }),
      readMachines(visit, { license: licenseId }),
      findLicense(options.database, parseId("lic", licenseId) ?? "", { now }),
    ]);
    const keysOfLicense = countKeys(license);
    const over = license?.over ?? 0;
    return { ...shown, machines, over, keysOfLicense, taken: machines?.taken, remains: { files } };
  },
  show: showKey,
};

async function showKey(explanation: ShownKey, visit: Visit): Promise<Detail> {
  const { key, refusals, machines, over } = explanation;
  const { options, now } = visit;
  const { database } = options;
  const of = { license: key.licenseId };
  const licenseUuid = parseId("lic", key.licenseId) ?? "";
  const [texts, history] = await Promise.all([
    findTextsToday(database, licenseUuid, now),
    readHistory(database, { keyUuid: uuidOf(explanation) }),
  ]);
  return {
    title: nameOfCustomer(key),
    what: `Key ${key.hint}`,
    under: (
      <>
        Key <code>{key.hint}</code>, <Id id={key.id} /> of <AccountLink id={key.userId} email={key.email} />,
        license <LicenseLink id={key.licenseId} />
      </>
    ),
    name: `…${key.hint.slice(-4)}`,
    // A second rotation would be refused, and hide the key that the first one shows.
    script: "submit_once",
    beside: <State of={key} />,
    above: (done) => (
      <>
        <Why explanation={explanation} visit={visit} done={done} />
        <CustomerSees explanation={explanation} over={over} now={now} />
      </>
    ),
    below: (
      <>
        <KeyFacts of={key} texts={texts} limits={options.limits} now={now} />
        <MachinesPanel machines={machines} of={of} places={key.maxMachines} now={now} />
        <RefusalsOfKey refusals={refusals} now={now} />
        <History rows={history} now={now} query={`key=${key.id}`} />
      </>
    ),
  };
}

interface KeyFactsProps {
  readonly of: KeySummary;
  readonly texts: TextsToday;
  /** Requests a minute of each endpoint. */
  readonly limits: Visit["options"]["limits"];
  readonly now: Date;
}

/** The limits and details of the key, folded. */
function KeyFacts({ of: key, texts, limits, now }: KeyFactsProps) {
  const hasOwnExpiry = key.expiresAt < key.licenseExpiresAt;
  return (
    <Folded summary="Limits and details">
      <Facts
        facts={[
          ["External id", key.externalId === null ? "none" : <Foreign text={key.externalId} />],
          ["Mode", key.mode],
          ["Requests a minute", describeLimits(key, limits)],
          ["Machines", describePlaces(key)],
          key.termDays !== null && ["Term", describeTerm(key, now)],
          key.updatesUntil && ["Updates until", <Day at={key.updatesUntil} now={now} />],
          hasOwnExpiry && ["License expires", <Day at={key.licenseExpiresAt} now={now} />],
          ["Texts of events today", <Texts of={texts} now={now} />],
          ["Issued", <Ago at={key.createdAt} now={now} />],
          key.replacedBy === null ? null : ["Replaced by", <KeyLink id={key.replacedBy} />],
        ]}
      />
    </Folded>
  );
}

/** How much `metadata` and how many messages the license has stored today, and whether there is room for more. */
function Texts({ of: { bytes, leftOutAt }, now }: Pick<KeyFactsProps, "now"> & { readonly of: TextsToday }) {
  if (leftOutAt === null) return bytes === 0 ? "none" : <Size bytes={bytes} />;
  return (
    <>
      left out: there was no more room <Ago at={leftOutAt} now={now} />
    </>
  );
}
