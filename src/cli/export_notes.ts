/** What commands that export licenses say before and afterwards. */
import { toTimestamp } from "../base/calendar.ts";
import type { KeySummary } from "../licensing/keys/mod.ts";
import { endIfStarted, type Term } from "../licensing/mod.ts";
import { foreseeExport, type renderExport } from "../licensing/signed_licenses/mod.ts";
import type { DatabaseCall } from "./command.ts";
import type { Printer } from "./print.ts";

/** Says that the next file starts the term of the license, if it does; returns whether it does. */
export function announceTerm(print: Printer, license: Term, now: Date): boolean {
  const end = endIfStarted(license, now);
  if (end === undefined) return false;
  print.note(
    `The license waits for its first use. This file starts its term, which then ends at ${toTimestamp(end)}`,
  );
  return true;
}

/** Says that the machines take places, if they do, and until when; returns whether they do. */
export function announcePlaces(
  { print, now }: Pick<DatabaseCall, "print" | "now">,
  key: KeySummary,
  { days, machines }: { readonly days: number | undefined; readonly machines: readonly string[] },
): boolean {
  if (key.maxMachines === null || machines.length === 0) return false;
  const until = toTimestamp(foreseeExport(key, { days, now }));
  const [who, what] =
    machines.length === 1
      ? ["The machine gets", "its fingerprint"]
      : [`Each of the ${machines.length} machines gets`, "their fingerprints"];
  print.note(`${who} a place of the license until ${until}, also if it is released earlier: check ${what}`);
  return true;
}

/** Says until when a signed license is valid, and what it has taken and started. */
export function noteExported(print: Printer, exported: ReturnType<typeof renderExport>): void {
  print.note(
    `The license is valid until ${exported.expires_at}; a revocation of the key does not end it earlier`,
  );
  if (exported.warning !== null) print.note(exported.warning);
  if (exported.term_ends_at !== null)
    print.note(`The term of the license has begun: it ends at ${exported.term_ends_at}`);
}
