/** What an export of a license will do, as doors say it before: until when the file will be valid. The statement decides. */
import { DAY_MS } from "../../base/calendar.ts";
import { counted } from "../../base/render_count.ts";
import { endIfStarted, type Term } from "../mod.ts";
import { MOST_EXPORT_DAYS, USUAL_EXPORT_DAYS } from "./note_license.ts";

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

function usualDays({ maxOfflineDays }: ExportedKey): number {
  return Math.min(maxOfflineDays ?? USUAL_EXPORT_DAYS, USUAL_EXPORT_DAYS);
}

/** Says what an export is for more days than so many, which are those of its tier: it may need a fresh proof. */
export function describeLongExport(usual: number): string {
  return `sign a license for more than the ${counted(usual, "offline day")} of its tier`;
}
