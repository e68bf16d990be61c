/** Why a license is not exported, for operators, who see the state of the key. */
import { DAY_MS, toTimestamp } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { FINGERPRINT } from "../machines/mod.ts";
import {
  isRestricted,
  oneYearAfter,
  refuseRestricted,
  refuseUnknownKey,
  revokedReason,
  UNRESTRICTED,
} from "../mod.ts";
import { type ExportRequest, type Named, type Noted, USUAL_EXPORT_DAYS } from "./note_license.ts";

const EXPORT = "export license";

/** Why a license that counts machines is not signed without the name of one. */
export const NAME_MACHINE = `the license counts machines and is signed for one of them: fingerprint must be ${FINGERPRINT.expects}`;

/** A revocation does not end a license, so a restricted token must not sign one for longer than it may issue a key. */
export function refuseDays({
  restriction = UNRESTRICTED,
  days = USUAL_EXPORT_DAYS,
  now,
}: Pick<ExportRequest, "restriction" | "days" | "now">): Refusal | undefined {
  const beginMs = now.getTime() - (now.getTime() % 1_000);
  const isBeyond = beginMs + days * DAY_MS > oneYearAfter(now).getTime();
  return isRestricted(restriction) && isBeyond
    ? refuse("NOT_ALLOWED", `Cannot ${EXPORT}: a restricted token may not choose more days than a year has`)
    : undefined;
}

/** What the refusal of an export needs to know. */
export type Examined = Pick<
  Noted,
  | "isAllowed"
  | "state"
  | "endsAt"
  | "days"
  | "mostDays"
  | "maxMachines"
  | "isPlaceRefused"
  | "placesTaken"
  | "roomAt"
>;

/** Refuses an export by what the key, its license and its places are. */
export function refuseExport(
  row: Examined | undefined,
  {
    keyUuid,
    machine,
    now,
    ofMany,
  }: Pick<Named<ExportRequest>, "keyUuid" | "machine" | "now"> & {
    /** The fingerprint, if it is one of many, so that the sentence says which one is wrong. */
    readonly ofMany?: string | undefined;
  },
): Refusal | undefined {
  const what = EXPORT;
  if (row === undefined) return refuseUnknownKey(what, keyUuid);
  if (!row.isAllowed) return refuseRestricted(what);
  const of = toId("key", keyUuid);
  const { why, remedy } = revokedReason(of);
  if (row.state === "revoked") return refuse("CONFLICT", `Cannot ${what}: ${why}`, { remedy });
  if (row.state === "suspended")
    return refuse("CONFLICT", `Cannot ${what}: the key is suspended`, { remedy: { name: "resume_key", of } });
  if (row.endsAt <= now)
    return refuse("CONFLICT", `Cannot ${what}: the key has expired`, {
      remedy: { name: "renew_license", of },
    });
  if (row.days > row.mostDays || row.mostDays === 0) {
    const why =
      row.mostDays === 0
        ? "the license is not signed for use without a network"
        : `the license is signed for at most ${counted(row.mostDays, "day")}`;
    return refuse("CONFLICT", `Cannot ${what}: ${why}; its offline days can be changed`);
  }
  if (row.maxMachines === null) return undefined;
  if (machine === undefined) {
    const hint = `It must be ${FINGERPRINT.expects}`;
    const fields = [{ field: "fingerprint", error: NAME_MACHINE, hint }];
    const which = ofMany === undefined ? "" : `, not ${JSON.stringify(ofMany)}`;
    const remedy = { name: "name_machine" } as const;
    return refuse("INVALID_REQUEST", `Cannot ${what}: ${NAME_MACHINE}${which}`, { fields, remedy });
  }
  if (!row.isPlaceRefused) return undefined;
  const next = row.roomAt === null ? "" : `, the next one until ${toTimestamp(row.roomAt)}`;
  const only =
    row.roomAt === null ? "" : "; the place of a signed license ends with it, or an admin frees it";
  const taken = `${row.placesTaken} of ${row.maxMachines} places for machines are taken${next}`;
  const help = `release an active machine, or give the license more places${only}`;
  return refuse("CONFLICT", `Cannot ${what}: ${taken}; ${help}`);
}
