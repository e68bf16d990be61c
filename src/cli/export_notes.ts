/** What commands that export licenses say before and afterwards. */
import { toTimestamp } from "../base/calendar.ts";
import { endIfStarted, type Term } from "../licensing/mod.ts";
import type { ForeseenMachine, renderExport } from "../licensing/signed_licenses/mod.ts";
import type { Printer } from "./print.ts";
import { renderRefusal } from "./remedies.ts";

/** Says that the next file starts the term of the license, if it does; returns whether it does. */
export function announceTerm(print: Printer, license: Term, now: Date): boolean {
  const end = endIfStarted(license, now);
  if (end === undefined) return false;
  print.note(
    `The license waits for its first use. This file starts its term, which then ends at ${toTimestamp(end)}`,
  );
  return true;
}

/**
 * Says which machines get no license, and until when the others hold places of the license, if it counts machines; returns
 * whether it does.
 */
export function announcePlaces(print: Printer, foreseen: readonly ForeseenMachine[]): boolean {
  const without = namesBy(foreseen, ({ refusal }) => refusal && renderRefusal(refusal));
  for (const [why, names] of without) print.note(`No license for ${names.join(", ")}: ${why}`);
  const holding = namesBy(foreseen, ({ placeUntil }) => placeUntil && toTimestamp(placeUntil));
  const [first, ...more] = holding.keys();
  if (first === undefined) return false;
  const taking = foreseen.filter(({ placeUntil }) => placeUntil !== undefined);
  const [who, what] =
    taking.length === 1
      ? ["The machine", "its fingerprint"]
      : [`Each of the ${taking.length} machines`, "their fingerprints"];
  const before = taking.filter(({ holdsPlace }) => holdsPlace).length;
  const does =
    before === 0 ? "gets a place" : before === taking.length ? "keeps its place" : "gets or keeps a place";
  const until = more.length === 0 ? ` until ${first}` : "";
  print.note(`${who} ${does} of the license${until}, also if it is released earlier: check ${what}`);
  if (more.length > 0) for (const [end, names] of holding) print.note(`  until ${end}: ${names.join(", ")}`);
  return true;
}

/** Returns the fingerprints of machines by what is the same for them, in the order of the machines. */
function namesBy(
  machines: readonly ForeseenMachine[],
  toText: (machine: ForeseenMachine) => string | undefined,
): ReadonlyMap<string, readonly string[]> {
  const names = new Map<string, string[]>();
  for (const machine of machines) {
    const text = toText(machine);
    if (text !== undefined) names.set(text, [...(names.get(text) ?? []), machine.fingerprint]);
  }
  return names;
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
