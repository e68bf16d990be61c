/** @jsxImportSource hono/jsx */
/** What the forms that export a license share: its days, its machine, and what it is worth to say before. */
import * as v from "valibot";
import { NEVER_EXPIRES, toDay } from "../../base/calendar.ts";
import type { Refusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { endIfStarted, isUnstarted, isWaiting } from "../../licensing/mod.ts";
import {
  describeLongExport,
  EXPORTED_FINGERPRINT,
  endOfExported,
  foreseeExport,
  MOST_EXPORT_DAYS,
  mostExportDays,
  SIGNED_DAYS,
  USUAL_EXPORT_DAYS,
} from "../../licensing/signed_licenses/mod.ts";
import type { Change, FormProps } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { type FieldsOf, refuseFields, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { toOpenForm } from "../frame/console/route.ts";
import { type ActedKey, takenOf } from "./key_action.ts";

/** The fields of {@linkcode ExportFields}. */
export const EXPORT_ENTRIES = {
  days: v.pipe(TEXT, parsedField(SIGNED_DAYS)),
  fingerprint: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(EXPORTED_FINGERPRINT))),
};

type ExportChange = Change<ActedKey> & { readonly fields: FieldsOf<typeof EXPORT_ENTRIES> };

/** Says whether a place is free, until when the license would be valid, and that the file starts its term. */
export function ExportEnd({ of, now, isMany }: Pick<FormProps<ActedKey>, "of" | "now" | "isMany">) {
  return (
    <>
      {!isMany && <NoPlace of={of} />}
      <p>
        <End of={of} now={now} />
      </p>
      {isWaiting(of.key, now) && (
        <p>
          <b>{`The license waits for its first use, and this file starts its term: the license then ends on ${toDay(endIfStarted(of.key, now) ?? now)}.`}</b>
        </p>
      )}
    </>
  );
}

/** Says that all places are taken, and how one becomes free; nothing while one is free. */
function NoPlace({ of }: Pick<FormProps<ActedKey>, "of">) {
  const { id, licenseId, maxMachines } = of.key;
  if (maxMachines === null || takenOf(of) < maxMachines) return null;
  const taken = maxMachines === 1 ? "The only place is" : `All ${renderCount(maxMachines)} places are`;
  return (
    <p>
      <b>{`${taken} taken.`}</b> Only a machine that holds a place gets a file. For another machine{" "}
      <a href={`/console/machines?license=${licenseId}`}>release a machine</a> or{" "}
      <a href={toOpenForm(`/console/keys/${id}`, "machines")}>change the machine limit</a> first.
    </p>
  );
}

/** Asks for the days and the machine. */
export function ExportFields({ of, field, now }: FormProps<ActedKey>) {
  const most = mostExportDays(of.key, now);
  return (
    <>
      <TextField
        {...field("days", String(Math.min(USUAL_EXPORT_DAYS, most)))}
        label="Days of validity"
        inputmode="numeric"
        hint={`At most ${renderCount(most)}. The last day need not be whole. More than the offline days of the tier need a login of the last five minutes.`}
      />
      <TextField
        {...field("fingerprint")}
        label="Machine (optional)"
        hint="The fingerprint of the only machine that may use the license. Needed if the license counts machines."
      />
    </>
  );
}

/** Says how people without script see the file in the history. */
export function ReloadHint({ of }: Pick<FormProps<ActedKey>, "of">) {
  return (
    <noscript>
      <p>
        Afterwards <a href={`/console/keys/${of.key.id}#history`}>load the page again</a> to see the file in
        its history.
      </p>
    </noscript>
  );
}

/** Says what needs a fresh proof: a license for more days than its tier has. */
export function proofForExport({ of, fields, visit }: ExportChange): string | undefined {
  const usual = visit.options.licenseSigner.offlineDays[of.key.tier];
  return fields.days > usual ? describeLongExport(usual) : undefined;
}

/** Refuses more days than a file of the key can be valid, and says what bounds them. */
export function refuseExportDays({ of, fields, by }: ExportChange): Refusal | undefined {
  const most = mostExportDays(of.key, by.now);
  if (fields.days <= most) return undefined;
  const error = `It must be at most ${renderCount(most)}: ${reasonOf(of, by.now)}`;
  return refuseFields([{ field: "days", error }]);
}

/** Tells whether the license's own offline days bound the days of a file. */
function isBoundByDays(of: ActedKey, now: Date): boolean {
  const { maxOfflineDays } = of.key;
  return (
    maxOfflineDays !== null &&
    maxOfflineDays <= USUAL_EXPORT_DAYS &&
    mostExportDays(of.key, now) >= maxOfflineDays
  );
}

/** Says what bounds the days of a file. */
function reasonOf(of: ActedKey, now: Date): string {
  const { maxOfflineDays } = of.key;
  const licenseExpiresAt = endIfStarted(of.key, now) ?? of.key.licenseExpiresAt;
  const expiresAt = endOfExported(of.key, now);
  if (isBoundByDays(of, now)) return `the license has ${counted(maxOfflineDays ?? 0, "offline day")}`;
  if (expiresAt < licenseExpiresAt) return `the key was rotated and ends on ${toDay(expiresAt)}`;
  return expiresAt.getTime() === NEVER_EXPIRES.getTime()
    ? `no file is valid for more than ${renderCount(MOST_EXPORT_DAYS)} days`
    : `the license ends on ${toDay(expiresAt)}`;
}

/** Says until when a file with the proposed days would be valid and why, and what gives a longer one. */
function End({ of, now }: { readonly of: ActedKey; readonly now: Date }) {
  const { key } = of;
  const most = mostExportDays(of.key, now);
  const isBounded = most <= USUAL_EXPORT_DAYS;
  const path = `/console/keys/${key.id}`;
  if (key.maxOfflineDays === 0)
    return (
      <>
        The license is not signed for use without a network.{" "}
        <a href={toOpenForm(path, "offline")}>Change its offline days</a>
      </>
    );
  if (isBoundByDays(of, now))
    return (
      <>
        With {counted(most, "day")} (the most) the file would be{" "}
        <b>valid until {toDay(foreseeExport(key, { days: most, now }))}</b>
        {`, because ${reasonOf(of, now)}. `}
        <a href={toOpenForm(path, "offline")}>Change them for a longer file</a>
      </>
    );
  return (
    <>
      {isBounded ? `With ${counted(most, "day")} (the most) ` : `With ${USUAL_EXPORT_DAYS} days `}
      the file would be{" "}
      <b>valid until {toDay(foreseeExport(key, { days: Math.min(most, USUAL_EXPORT_DAYS), now }))}</b>
      {`${isBounded ? ", because" : ";"} ${reasonOf(of, now)}. `}
      {isBounded && key.replacedBy === null && !isUnstarted(key) && (
        <a href={toOpenForm(path, "renew")}>Renew the license for a longer file</a>
      )}
      {isBounded && key.replacedBy !== null && (
        <a href={toOpenForm(`/console/keys/${key.replacedBy}`, "license")}>Export one for the new key</a>
      )}
    </>
  );
}
