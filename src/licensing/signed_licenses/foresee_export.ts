/**
 * What an export of a license will do, as doors say it before: until when the file will be valid, and what becomes of the places
 * of its machines. The statement of the export decides.
 */
import { DAY_MS } from "../../base/calendar.ts";
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import type { Database } from "../../database/mod.ts";
import { FINGERPRINT, findPlaces, type NameMachine } from "../machines/mod.ts";
import {
  allowsKey,
  endIfStarted,
  type KeyMode,
  type Restriction,
  type Term,
  type Tier,
  UNRESTRICTED,
} from "../mod.ts";
import { MOST_EXPORT_DAYS, USUAL_EXPORT_DAYS } from "./note_license.ts";
import { refuseDays, refuseExport } from "./refuse_export.ts";

/** A key whose license is exported: the earlier of the ends of both, and the days that the license itself sets. */
interface ExportedKey extends Term {
  readonly expiresAt: Date;
  readonly maxOfflineDays: number | null;
}

/** Returns the end of the key, as it is if a file starts the term of its license now. */
export function endOfExported(key: ExportedKey, now: Date): Date {
  const ends = [key.expiresAt, endIfStarted(key, now) ?? key.expiresAt];
  return new Date(Math.min(...ends.map((end) => end.getTime())));
}

/** Returns the most days that a file of the key can be valid. */
export function mostExportDays(key: ExportedKey, now: Date): number {
  const left = Math.ceil((endOfExported(key, now).getTime() - now.getTime()) / DAY_MS);
  return Math.max(1, Math.min(left, key.maxOfflineDays ?? MOST_EXPORT_DAYS, MOST_EXPORT_DAYS));
}

/** Returns until when a file of so many days will be valid, by default of as many as an export usually has. */
export function foreseeExport(
  key: ExportedKey,
  { days = usualDays(key), now }: { readonly days?: number | undefined; readonly now: Date },
): Date {
  const endMs = Math.min(now.getTime() + days * DAY_MS, endOfExported(key, now).getTime());
  return new Date(endMs - (endMs % 1_000));
}

/** Returns the days of a file for which nobody chose others. */
export function usualDays({ maxOfflineDays }: ExportedKey): number {
  return Math.min(maxOfflineDays ?? USUAL_EXPORT_DAYS, USUAL_EXPORT_DAYS);
}

/** Says what an export is for more days than so many, which are those of its tier: it may need a fresh proof. */
export function describeLongExport(usual: number): string {
  return `sign a license for more than the ${counted(usual, "offline day")} of its tier`;
}

/** A key with what decides whether its license is exported. */
export interface ForeseenKey extends ExportedKey {
  readonly id: string;
  readonly licenseId: string;
  readonly state: string;
  readonly tier: Tier;
  readonly mode: KeyMode;
  readonly maxMachines: number | null;
}

export interface ForeseenRequest {
  readonly days?: number | undefined;
  /** The machines, one license each, in this order; none for one license without a machine. */
  readonly fingerprints: readonly string[];
  readonly restriction?: Restriction | undefined;
  readonly now: Date;
}

/** What the export for one machine will do. */
export interface ForeseenMachine {
  readonly fingerprint: string;
  /** Why the machine gets no license: every place is taken. */
  readonly refusal: Refusal | undefined;
  /** Until when licenses hold its place: until the last one ends. Undefined if the license does not count machines. */
  readonly placeUntil: Date | undefined;
  /** Whether it holds a place already. */
  readonly holdsPlace: boolean;
}

const NO_MACHINE = { machine: undefined, fingerprint: undefined };
const NO_PLACE = { refusal: undefined, placeUntil: undefined, holdsPlace: false } as const;

/**
 * Foresees the exports of a license for some machines, one after the other. Refuses what would be refused for each of them, and a
 * fingerprint that cannot name a machine; of machines without a place it says so at the machine, unless none has one.
 */
export async function foreseeExports(
  database: Pick<Database, "read">,
  key: ForeseenKey,
  { fingerprints, nameMachine, ...request }: ForeseenRequest & { readonly nameMachine: NameMachine },
): Promise<readonly ForeseenMachine[] | Refusal> {
  const { restriction = UNRESTRICTED, days = usualDays(key), now } = request;
  const keyUuid = parseId("key", key.id) ?? "";
  const licenseUuid = parseId("lic", key.licenseId) ?? "";
  const endsAt = endOfExported(key, now);
  const mostDays = key.maxOfflineDays ?? MOST_EXPORT_DAYS;
  const facts = { ...key, isAllowed: allowsKey(restriction, key), endsAt, days, mostDays };
  const names = fingerprints.map((fingerprint) => ({
    fingerprint,
    machine: FINGERPRINT.parse(fingerprint) === undefined ? undefined : nameMachine(licenseUuid, fingerprint),
  }));
  const room = { isPlaceRefused: false, placesTaken: null, roomAt: null };
  for (const { machine, fingerprint } of names.length === 0 ? [NO_MACHINE] : names) {
    const ofMany = names.length > 1 ? fingerprint : undefined;
    const refused =
      refuseDays(request) ?? refuseExport({ ...facts, ...room }, { keyUuid, machine, now, ofMany });
    if (refused !== undefined) return refused;
  }
  const { maxMachines } = key;
  if (maxMachines === null) return fingerprints.map((fingerprint) => ({ fingerprint, ...NO_PLACE }));
  const until = foreseeExport(key, { days, now });
  const machines = names.flatMap(({ machine }) => machine ?? []);
  const { taken, nextEnd, places } = await findPlaces(database, { licenseUuid, maxMachines, machines });
  let used = taken;
  const foreseen = names.map(({ fingerprint, machine }): ForeseenMachine => {
    const place = machine && places.get(machine.hash);
    const isPlaceRefused = !place?.isTaken && used >= maxMachines;
    // The places of this step end with its licenses.
    const ends = [nextEnd, used > taken ? until : null].filter((end) => end !== null);
    const roomAt = ends.length === 0 ? null : new Date(Math.min(...ends.map((end) => end.getTime())));
    const refusal = refuseExport(
      { ...facts, isPlaceRefused, placesTaken: used, roomAt },
      { keyUuid, machine, now },
    );
    if (refusal !== undefined) return { ...NO_PLACE, fingerprint, refusal };
    const { isTaken: holdsPlace = false, signedUntil } = place ?? {};
    if (!holdsPlace) used++;
    const placeUntil = signedUntil && signedUntil > until ? signedUntil : until;
    return { fingerprint, refusal, placeUntil, holdsPlace };
  });
  return foreseen.find(({ refusal }) => refusal === undefined) === undefined
    ? (foreseen.map(({ refusal }) => refusal).find(isRefusal) ?? foreseen)
    : foreseen;
}
