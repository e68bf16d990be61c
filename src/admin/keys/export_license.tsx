/** @jsxImportSource hono/jsx */
/** The export of a signed license. Its answer is a file. */
import * as v from "valibot";
import { DAY_MS, NEVER_EXPIRES, toDay } from "../../base/calendar.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { endIfStarted, isUnstarted, isWaiting } from "../../licensing/mod.ts";
import {
  MOST_EXPORT_DAYS,
  NONCE,
  renderExport,
  SIGNED_DAYS,
  SIGNED_FINGERPRINT,
  USUAL_EXPORT_DAYS,
} from "../../licensing/signed_licenses/mod.ts";
import { action } from "../frame/console/action.ts";
import { TextField } from "../frame/console/components/form.tsx";
import { refuseFields, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import { toOpenForm } from "../frame/console/route.ts";
import { type ActedKey, HELP_GROUP, isActive, type KeyAction, uuidOf } from "./key_action.ts";

export const exportLicense: KeyAction = action({
  name: "license",
  scope: "keys:issue",
  label: "Export license file",
  group: HELP_GROUP,
  submit: "Download the file",
  toMany: true,
  isDownload: true,
  fits: isActive,
  Form: ({ of, field, now }) => (
    <>
      <p>
        <End of={of} now={now} />
      </p>
      {isWaiting(of.key, now) && (
        <p>
          <b>{`The license waits for its first use, and this file starts its term: the license then ends on ${toDay(endIfStarted(of.key, now) ?? now)}.`}</b>
        </p>
      )}
      <p>
        The file proves the license without a network. A later suspension or revocation does not end the file.
        Each download signs another license. If the license has a number of machines, the machine below gets a
        place until the end of the file, also if it is released earlier.
      </p>
      <TextField
        {...field("days", String(Math.min(USUAL_EXPORT_DAYS, mostDays(of, now))))}
        label="Days of validity"
        inputmode="numeric"
        hint={`At most ${renderCount(mostDays(of, now))}. The last day need not be whole. More than the offline days of the tier need a login of the last five minutes.`}
      />
      <TextField
        {...field("fingerprint")}
        label="Machine (optional)"
        hint="The fingerprint of the only machine that may use the license. Needed if the license counts machines."
      />
      <noscript>
        <p>
          Afterwards <a href={`/console/keys/${of.key.id}#history`}>load the page again</a> to see the file in
          its history.
        </p>
      </noscript>
      <TextField {...field("nonce")} label="Nonce (optional)" hint="A text that the license repeats." />
    </>
  ),
  entries: {
    days: v.pipe(TEXT, parsedField(SIGNED_DAYS)),
    fingerprint: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(SIGNED_FINGERPRINT))),
    nonce: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(NONCE))),
  },
  proofFor({ of, fields, visit }) {
    const usual = visit.options.licenseSigner.offlineDays[of.key.tier];
    return fields.days > usual
      ? `sign a license for more than the ${counted(usual, "offline day")} of its tier`
      : undefined;
  },
  async perform({ of, fields, by, visit }) {
    const most = mostDays(of, by.now);
    if (fields.days > most) {
      const error = `It must be at most ${renderCount(most)}: ${reasonOf(of, by.now)}`;
      return refuseFields([{ field: "days", error }]);
    }
    const signed = await visit.options.licenseSigner.export({ keyUuid: uuidOf(of), ...fields, ...by });
    if (isRefusal(signed)) return signed;
    return new Response(renderExport(signed).file, {
      headers: {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Disposition": `attachment; filename="${of.key.id}.license"`,
      },
    });
  },
  done: {
    "license.export": (_, after) =>
      `The file was downloaded. It is valid until ${Object(after).expires_at.slice(0, 16).replace("T", " ")}.`,
  },
});

/** Returns the end of the key, as it is if a file starts the term of its license now. */
function endOf({ key }: ActedKey, now: Date): Date {
  const ends = [key.expiresAt, endIfStarted(key, now) ?? key.expiresAt];
  return new Date(Math.min(...ends.map((end) => end.getTime())));
}

/** The most days that a file of the key can be valid. */
function mostDays(of: ActedKey, now: Date): number {
  const left = Math.ceil((endOf(of, now).getTime() - now.getTime()) / DAY_MS);
  const most = of.key.maxOfflineDays ?? MOST_EXPORT_DAYS;
  return Math.max(1, Math.min(left, most, MOST_EXPORT_DAYS));
}

/** Tells whether the license's own offline days bound the days of a file. */
function isBoundByDays(of: ActedKey, now: Date): boolean {
  const { maxOfflineDays } = of.key;
  return (
    maxOfflineDays !== null && maxOfflineDays <= USUAL_EXPORT_DAYS && mostDays(of, now) >= maxOfflineDays
  );
}

/** Says what bounds the days of a file. */
function reasonOf(of: ActedKey, now: Date): string {
  const { maxOfflineDays } = of.key;
  const licenseExpiresAt = endIfStarted(of.key, now) ?? of.key.licenseExpiresAt;
  const expiresAt = endOf(of, now);
  if (isBoundByDays(of, now)) return `the license has ${counted(maxOfflineDays ?? 0, "offline day")}`;
  if (expiresAt < licenseExpiresAt) return `the key was rotated and ends on ${toDay(expiresAt)}`;
  return expiresAt.getTime() === NEVER_EXPIRES.getTime()
    ? `no file is valid for more than ${renderCount(MOST_EXPORT_DAYS)} days`
    : `the license ends on ${toDay(expiresAt)}`;
}

/** Returns until when a file of so many days would be valid. */
function untilOf(of: ActedKey, now: Date, days: number): Date {
  return new Date(Math.min(now.getTime() + days * DAY_MS, endOf(of, now).getTime()));
}

/** Says until when a file with the proposed days would be valid and why, and what gives a longer one. */
function End({ of, now }: { readonly of: ActedKey; readonly now: Date }) {
  const { key } = of;
  const most = mostDays(of, now);
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
        <b>valid until {toDay(untilOf(of, now, most))}</b>
        {`, because ${reasonOf(of, now)}. `}
        <a href={toOpenForm(path, "offline")}>Change them for a longer file</a>
      </>
    );
  return (
    <>
      {isBounded ? `With ${counted(most, "day")} (the most) ` : `With ${USUAL_EXPORT_DAYS} days `}
      the file would be <b>valid until {toDay(untilOf(of, now, Math.min(most, USUAL_EXPORT_DAYS)))}</b>
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
