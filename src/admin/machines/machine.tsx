/** @jsxImportSource hono/jsx */
/** The page of a machine: whose it is, since when, until when its place is taken, and how it is released or its place freed. */
import { toTimestamp } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { escapeControls } from "../../base/text/mod.ts";
import { type KeySummary, listKeys } from "../../licensing/keys/mod.ts";
import {
  findMachine,
  freeByOperator,
  isFreeable,
  type MachineSummary,
  refuseUnknownMachine,
  releaseByOperator,
  STATE_MEANINGS,
} from "../../licensing/machines/mod.ts";
import { findLicense, MAX_KEYS } from "../../licensing/mod.ts";
import { machineFor } from "../frame/api/path_ids.ts";
import { type Action, action } from "../frame/console/action.ts";
import { Id } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import {
  AccountLink,
  Ago,
  Day,
  Foreign,
  KeyLink,
  LicenseLink,
  NONE,
  nameOfCustomer,
} from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { MachineStatePill, TakenUntil } from "./machines.tsx";

const release: Action<MachineSummary> = action({
  name: "release",
  scope: "machines:release",
  label: "Release",
  submit: "Release the machine",
  fits: ({ state }) => state === "active",
  Form: () => (
    <p>
      The machine gives its place back, and its next heartbeat is refused. It can be activated again while a
      place is free. If a license was signed for it, its place stays taken until that license ends, or until
      an admin frees it.
    </p>
  ),
  ends: () => 1,
  perform: ({ of, by, visit }) => releaseByOperator(visit.options.database, parseId("mch", of.id) ?? "", by),
  done: {
    "machine.release": (_, after) =>
      Object(after).state === "released"
        ? "The machine is released: its place is free."
        : "The machine is released. It is offline: its place stays taken until the license that was signed for it ends.",
  },
});

/** Says how long a signed license works. */
function stillWorks(signedUntil: Date): string {
  return `The license that was signed for the machine still works without a network until ${toTimestamp(signedUntil)}.`;
}

const NOTHING_ENDS_IT = "Nothing ends it earlier.";

const free: Action<MachineSummary> = action({
  name: "free",
  scope: "machines:free",
  label: "Free its place",
  submit: "Free the place",
  isFinal: true,
  needsFreshProof: true,
  needsReason: true,
  fits: isFreeable,
  Form: ({ of: { signedUntil } }) => (
    <>
      <p>
        For a license file that is lost: the machine gives its place back at once, and is not active any more.
        Another machine can then get the place.
      </p>
      {signedUntil && (
        <p>
          <b>{stillWorks(signedUntil)}</b> {NOTHING_ENDS_IT}
        </p>
      )}
    </>
  ),
  perform: ({ of, by, visit }) => freeByOperator(visit.options.database, parseId("mch", of.id) ?? "", by),
  done: {
    "machine.free": (_, after) =>
      `The place is free. ${stillWorks(new Date(Object(after).file_works_until))}`,
  },
});

export const MACHINE_PAGE: DetailPage<MachineSummary> = {
  path: "/machines/:id",
  scope: "machines:read",
  addressOf: ({ id }) => `/machines/${id}`,
  actions: [release, free],
  async find({ options, params }) {
    const named = machineFor("show machine").read(params);
    if (isRefusal(named)) return named;
    return (await findMachine(options.database, named.uuid)) ?? refuseUnknownMachine(named.what, named.uuid);
  },
  show: showMachine,
};

async function showMachine(machine: MachineSummary, visit: Visit): Promise<Detail> {
  const { now } = visit;
  const { id, userId, email, licenseId, name, platform, state, activatedAt, lastSeenAt, ...ends } = machine;
  const { activeUntil, signedUntil } = ends;
  const license = await readLicense(machine, visit);
  return {
    title: name === null ? `Machine …${id.slice(-6)}` : escapeControls(name),
    ...(name !== null && { what: "Machine" }),
    under: (
      <>
        Machine of <AccountLink id={userId} email={email} />, license <LicenseLink id={licenseId} />
      </>
    ),
    beside: <MachineStatePill state={state} />,
    below: (
      <>
        {license && <Stolen machine={machine} keys={license.keys} hasAll={license.hasAll} />}
        <Facts
          facts={[
            license !== undefined && ["Customer", <Foreign text={nameOfCustomer(license)} />],
            license !== undefined && [
              "License",
              <>
                {license.tier}, expires <Day at={license.expiresAt} now={now} />
              </>,
            ],
            ["State", `${state}: ${STATE_MEANINGS[state]}`],
            ["Machine id", <Id id={id} />],
            ["Platform", platform === null ? NONE : <Foreign text={platform} />],
            ["Machines of the license", <a href={`/console/machines?license=${licenseId}`}>Show all</a>],
            ["Since", <Ago at={activatedAt} now={now} />],
            ["Last seen", <Ago at={lastSeenAt} now={now} />],
            activeUntil !== null && ["Its seat ends", <Ago at={activeUntil} now={now} />],
            ["Place taken until", <TakenUntil machine={machine} now={now} />],
            signedUntil !== null && ["Its signed license ends", <Ago at={signedUntil} now={now} />],
          ]}
        />
      </>
    ),
  };
}

/** The most keys that a list of the page names. */
const MOST_KEYS = 10;

/** Reads the license of the machine and its newest keys that work; undefined if the operator may not see keys. */
async function readLicense({ licenseId }: MachineSummary, { options: { database }, may, now }: Visit) {
  if (!may("keys:read")) return undefined;
  const license = await findLicense(database, parseId("lic", licenseId) ?? "", { now });
  const working = license?.keys.filter(({ state }) => state === "active") ?? [];
  const uuids = working.map(({ id }) => parseId("key", id) ?? "");
  const hasAll = license !== undefined && license.keys.length < MAX_KEYS;
  return (
    license && {
      ...license,
      hasAll,
      keys: await listKeys(database, { now, filter: { uuids, newestFirst: true } }),
    }
  );
}

interface StolenProps {
  readonly machine: MachineSummary;
  /** The keys of its license that work, the newest key first. */
  readonly keys: readonly KeySummary[];
  /** Whether no older key of the license can work. */
  readonly hasAll: boolean;
}

/**
 * What ends the use by a thief, and what nothing ends. A machine need not send heartbeats, so it can also have a key that was
 * issued after it was last seen.
 */
function Stolen({ machine: { lastSeenAt, signedUntil }, keys, hasAll }: StolenProps) {
  const earlier = keys.filter(({ createdAt }) => createdAt <= lastSeenAt);
  const later = keys.filter(({ createdAt }) => createdAt > lastSeenAt);
  const isEnded = earlier.length === 0 && hasAll;
  return (
    <p>
      <b>Stolen?</b>{" "}
      {isEnded
        ? "The keys that were issued before it was last seen no longer work. "
        : "A release does not stop it: whoever has the machine can activate it again. Suspend or revoke the key that it uses, or rotate the key with 0 days of overlap. "}
      {signedUntil && `${stillWorks(signedUntil)} ${NOTHING_ENDS_IT} `}
      <KeysOf keys={earlier} which="Keys of its license that work" />
      <KeysOf keys={later} which="Keys issued after it was last seen, so probably not on it" />
    </p>
  );
}

/** The newest of some keys, as links. */
function KeysOf({ keys, which }: { readonly keys: readonly KeySummary[]; readonly which: string }) {
  if (keys.length === 0) return null;
  return (
    <>
      {`${which}${keys.length > MOST_KEYS ? `, the ${MOST_KEYS} newest` : ""}: `}
      {keys.slice(0, MOST_KEYS).map(({ id, hint }, index) => (
        <>
          {index > 0 && ", "}
          <KeyLink id={id} text={hint} />
        </>
      ))}
      {". "}
    </>
  );
}
