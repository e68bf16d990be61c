/** @jsxImportSource hono/jsx */
/**
 * What goes on working when a key is suspended, revoked, rotated or replaced: the licenses that were signed for it, and the
 * places of the machines.
 */
import { toDay } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import type { KeySummary } from "../../licensing/keys/mod.ts";
import { listOutstanding, type OutstandingLicense } from "../../licensing/signed_licenses/mod.ts";
import { Ago } from "../frame/console/components/values.tsx";
import type { Visit } from "../frame/console/visit.ts";
import type { ActedKey } from "./key_action.ts";

/** How many signed licenses are counted. */
const MOST_READ = 1_000;

/** Lists the signed licenses of keys that are valid, the latest end first. */
export async function listFilesOf(
  { options: { database }, now }: Visit,
  keys: readonly Pick<KeySummary, "id">[],
): Promise<readonly OutstandingLicense[]> {
  const keyUuids = keys.flatMap(({ id }) => parseId("key", id) ?? []);
  return await listOutstanding(database, { now, keyUuids, limit: MOST_READ });
}

/** Says how many signed licenses stay valid, and until when; empty for none. */
export function describeFiles([last, ...others]: readonly OutstandingLicense[]): string {
  if (last === undefined) return "";
  const count = others.length + 1;
  const files = `${count === MOST_READ ? "At least " : ""}${counted(count, "signed license")}`;
  return `${files} ${count === 1 ? "stays" : "stay"} valid without a network, ${count === 1 ? "" : "the last "}until ${toDay(last.expiresAt)}.`;
}

/** Says what stays of a key whose page was read; empty if nothing does. */
export function describeRemains({ key: { maxMachines }, remains }: ActedKey): string {
  const { files = [], taken } = remains ?? {};
  const places =
    maxMachines !== null &&
    taken !== undefined &&
    taken > 0 &&
    `Machines keep their places: ${renderCount(taken)} of ${renderCount(maxMachines)} are taken.`;
  return [describeFiles(files), places].filter(Boolean).join(" ");
}

/** Says before a change of a key when it was last used and what stays, with a link to the signed licenses. */
export function Remains({ of, now }: { readonly of: ActedKey; readonly now: Date }) {
  const { key, remains } = of;
  if (remains === undefined) return null;
  return (
    <p>
      Last used: <Ago at={key.lastUsedAt} now={now} />. <RemainsAfter of={of} />
    </p>
  );
}

/** Says what stays of a key, with a link to the signed licenses. */
export function RemainsAfter({ of }: { readonly of: ActedKey }) {
  return (
    <>
      {describeRemains(of)}{" "}
      {of.remains?.files.length ? (
        <a href={`/console/licenses/${of.key.licenseId}#files`}>Signed licenses that still work</a>
      ) : null}
    </>
  );
}
