/** @jsxImportSource hono/jsx */
/**
 * The pages on which a report of use is imported: a form, what the report would change, and what it has changed. The form of
 * the second page passes the report on, so what was shown is what is imported, or the third page says what was.
 */
import * as v from "valibot";
import { toTimestamp } from "../../base/calendar.ts";
import { toId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import type { RemedyName } from "../../base/remedy.ts";
import { renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { GIVEN_FINGERPRINT } from "../../licensing/machines/mod.ts";
import {
  DAYS_BY_DEFAULT,
  describeLongExport,
  type ForeseenLicense,
  renderExport,
  SIGNED_DAYS,
  type SignedLicense,
} from "../../licensing/signed_licenses/mod.ts";
import { refuseOldProof } from "../../operators/mod.ts";
import { type ChangedMonth, describeReport, type ReportResult, type Taken } from "../../usage/mod.ts";
import type { FormProps } from "../frame/console/action.ts";
import { CONSENT, Consent } from "../frame/console/components/consent.tsx";
import { Field, TextField } from "../frame/console/components/form.tsx";
import { Copyable, Notice } from "../frame/console/components/layout.tsx";
import { HiddenFields } from "../frame/console/components/selection.tsx";
import { type Column, Facts, numeric, Table } from "../frame/console/components/table.tsx";
import { Foreign, LicenseLink, Minute } from "../frame/console/components/values.tsx";
import { parseForm, refuseFields, TEXT, TEXT_OR_NOTHING } from "../frame/console/form_fields.ts";
import type { Page } from "../frame/console/page.tsx";
import { fieldsOf, MOST_ENTERED, type RefusedForm } from "../frame/console/refused_form.ts";
import { RefusalNotice } from "../frame/console/remedies.tsx";
import { type ConsoleRoute, form, page } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";

const PATH = "/usage/reports";

/** The page with the preview sends a report back to the browser: larger ones come by the command or the API. */
const MOST_MB = 4;
const FORM_LIMIT_BYTES = MOST_MB * 1024 * 1024;

const ENTRIES = {
  report: v.pipe(TEXT, v.nonEmpty("must be given")),
  new_journal: CONSENT,
  clock_ahead: CONSENT,
  fingerprint: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(GIVEN_FINGERPRINT))),
  days: v.pipe(TEXT_OR_NOTHING, v.optional(parsedField(SIGNED_DAYS))),
};
const SENT = [...Object.keys(ENTRIES), "reason"];

function formPage({ may }: Visit, refused?: RefusedForm): Page {
  const field = fieldsOf("report", refused);
  const { value = "", ...report } = field("report");
  return {
    title: "Import a report of use",
    isNarrow: true,
    script: ["submit_once", "report"],
    ...(refused && {
      code: refused.refusal.code,
      retryAfterSeconds: refused.refusal.retryAfterSeconds,
    }),
    body: (
      <>
        {refused && <RefusalNotice refusal={refused.refusal} may={may} isOfForm />}
        <p>
          A machine without a network writes what it used into a report. Each report is counted once. The next
          page says what would change.
        </p>
        <form method="post" action={`/console${PATH}`} novalidate>
          <TextField
            {...report}
            // A part of a report is none.
            value={value.length < MOST_ENTERED ? value.trim() : ""}
            label="Report"
            hint={`The one line of its file, at most ${MOST_MB} MB. The command claviger usage import takes larger ones.`}
            autofocus={refused === undefined}
            required
          />
          <div hidden data-with-file="">
            <Field label="Or its file" name="file">
              <input id="file" type="file" data-fills="report-report" />
            </Field>
          </div>
          <Consent
            field={field}
            name="new_journal"
            label="The machine begins another journal with this report, such as after a restore"
          />
          <Consent
            field={field}
            name="clock_ahead"
            label="The clock of the machine is ahead, and the report counts with the days that it has"
          />
          <TextField
            {...field("reason")}
            label="Reason (optional)"
            hint="For the audit log. Needed if a box is checked."
          />
          {may(SIGNING) && <NextFields field={field} />}
          <div class="actions">
            <button type="submit">Show what would change</button>
            <a href="/console/usage">Cancel</a>
          </div>
        </form>
      </>
    ),
  };
}

/** The scope that signing a license needs. */
const SIGNING = "keys:issue";

/** Asks for the license that is to be signed after the import. */
function NextFields({ field }: Pick<FormProps<unknown>, "field">) {
  return (
    <fieldset>
      <legend>The next license of the machine (optional)</legend>
      <p>With a fingerprint here, the next license of the machine is signed after the import.</p>
      <TextField
        {...field("fingerprint")}
        label="Fingerprint of the machine"
        hint="The report does not name it, and the service does not store it."
      />
      <TextField
        {...field("days")}
        label="Days of validity"
        inputmode="numeric"
        hint={`${DAYS_BY_DEFAULT.replace(/^b/, "B")}. More than those of the tier need a login of the last five minutes.`}
      />
    </fieldset>
  );
}

/** Reads the form and takes the report; returns the form again if either is refused. */
async function take(visit: Visit, isDryRun: boolean): Promise<Taken | Page> {
  const { form, options, may } = visit;
  const parsed = parseForm(ENTRIES, visit);
  const again = (refusal: Refusal) => formPage(visit, { action: "report", form, refusal: asked(refusal) });
  if (isRefusal(parsed)) return again(parsed);
  const { report, fingerprint, days, new_journal: newJournal, clock_ahead: clockAhead } = parsed.fields;
  if (fingerprint === undefined && days !== undefined)
    return again(refuseFields([{ field: "fingerprint", error: "It is needed with days" }]));
  if (fingerprint !== undefined && !may(SIGNING)) return again(MAY_NOT_SIGN);
  const taken = await options.reportImports.take(report, {
    ...parsed.by,
    allowed: { newJournal, clockAhead },
    isDryRun,
    next:
      fingerprint === undefined ? undefined : { fingerprint, days, refuse: (of) => refuseProof(of, visit) },
  });
  return isRefusal(taken) ? again(taken) : taken;
}

const MAY_NOT_SIGN = refuse(
  "NOT_ALLOWED",
  "Cannot sign the next license: your role may not; nothing was imported",
);

/** Refuses a license for more days than its tier has to a session without a fresh proof. */
function refuseProof({ days, tier }: ForeseenLicense, { options, session, now }: Visit): Refusal | undefined {
  const usual = options.licenseSigner.offlineDays[tier];
  return days > usual ? refuseOldProof(session, now, describeLongExport(usual)) : undefined;
}

/** Shows the refusal of a report out of turn beside the box that lets it pass. */
function asked(refusal: Refusal): Refusal {
  const box = refusal.remedy && BOXES[refusal.remedy.name];
  if (box === undefined) return refusal;
  return refuseFields([{ field: box.field, error: `${refusal.stem}. ${box.ask}` }]);
}

const BOXES: Readonly<Partial<Record<RemedyName, { readonly field: string; readonly ask: string }>>> = {
  begin_journal: {
    field: "new_journal",
    ask: "Check the box and give a reason if another journal is meant",
  },
  allow_clock: {
    field: "clock_ahead",
    ask: "Check the box and give a reason if its use is to count with the days that it has",
  },
};

async function previewPage(visit: Visit): Promise<Page> {
  const taken = await take(visit, true);
  if ("body" in taken) return taken;
  const { result, foreseen } = taken;
  const sent = SENT.flatMap((name): [string, string][] => {
    const value = visit.form.get(name);
    return value === null ? [] : [[name, value]];
  });
  const isKnown = result.outcome === "known";
  return {
    title: isKnown ? "This report is imported already" : "Import this report?",
    script: "submit_once",
    body: (
      <>
        <p role="status">
          <Foreign text={`${describeReport(result)}.`} />
        </p>
        <Shown result={result} />
        {foreseen && <Foreseen of={foreseen} />}
        {isKnown && foreseen === undefined ? (
          <Back />
        ) : (
          <form method="post" action={`/console${PATH}/import`}>
            <HiddenFields of={sent} />
            <p>Nothing is changed yet. No page can undo {isKnown ? "the signature" : "the import"}.</p>
            <div class="actions">
              <button type="submit">{submitOf(isKnown, foreseen !== undefined)}</button>
              <a href={`/console${PATH}`}>Cancel</a>
            </div>
          </form>
        )}
      </>
    ),
  };
}

function submitOf(isKnown: boolean, signs: boolean): string {
  if (isKnown) return "Sign the license";
  return signs ? "Import the report, and sign the license" : "Import the report";
}

/** Says which license would be signed, and what that takes and starts. */
function Foreseen({
  of: { keyUuid, expiresAt, placeUntil, holdsPlace, termEndsAt },
}: {
  readonly of: ForeseenLicense;
}) {
  const id = toId("key", keyUuid);
  return (
    <>
      <h2>The next license of the machine</h2>
      <p>
        It would be signed for the key <a href={`/console/keys/${id}`}>{id}</a>, and{" "}
        <b>valid until {toTimestamp(expiresAt)}</b>. A later suspension or revocation does not end it.
      </p>
      {placeUntil && (
        <p>
          {`The machine ${holdsPlace ? "keeps its" : "then has a"} place of the license until ${toTimestamp(placeUntil)}, also if it is released earlier.`}
        </p>
      )}
      {termEndsAt && (
        <p>
          <b>{`The license waits for its first use, and this file starts its term, which then ends at ${toTimestamp(termEndsAt)}.`}</b>
        </p>
      )}
    </>
  );
}

async function importPage(visit: Visit): Promise<Page> {
  const taken = await take(visit, false);
  if ("body" in taken) return taken;
  const { result, signed } = taken;
  return {
    title: result.outcome === "known" ? "This report was imported already" : "Imported a report of use",
    script: "copy",
    body: (
      <>
        <p tabindex={-1} autofocus role="status">
          <Foreign text={`${describeReport(result)}.`} />
        </p>
        {signed && <NextLicense signed={signed} may={visit.may} />}
        <Shown result={result} />
        <Back />
      </>
    ),
  };
}

/** The license that was signed, to download or to copy, or why there is none. */
function NextLicense({ signed, may }: { readonly signed: SignedLicense | Refusal } & Pick<Visit, "may">) {
  if (isRefusal(signed))
    return (
      <>
        <Notice kind="warning">The report is imported, but no license was signed.</Notice>
        <RefusalNotice refusal={signed} may={may} kind="warning" />
      </>
    );
  const { file, expires_at, warning, term_ends_at } = renderExport(signed);
  return (
    <>
      <h2>The next license of the machine</h2>
      <p>
        It is signed, and valid until {expires_at}. No other page shows it.
        {warning && ` ${warning}.`}
        {term_ends_at && ` The term of the license has begun: it ends at ${term_ends_at}.`}
      </p>
      <p>
        <a
          download={`${signed.claims.key_id}.license`}
          href={`data:text/plain;charset=utf-8,${encodeURIComponent(file)}`}
        >
          Download the license file
        </a>
      </p>
      <Copyable id="license" text={file} label="Copy the license" />
    </>
  );
}

function Back() {
  return (
    <p>
      <a href={`/console${PATH}`}>Import another report</a>
    </p>
  );
}

/** The facts of a report, and the use of each month before and after. */
function Shown({ result }: { readonly result: ReportResult }) {
  const { report, months, customer, machineUuid } = result;
  const { licenseUuid, machine, journal, number, madeAt, clients, days, events } = report;
  return (
    <>
      <Facts
        facts={[
          ["Customer", <Foreign text={[customer.organization, customer.email].filter(Boolean).join(", ")} />],
          ["License", <LicenseLink id={toId("lic", licenseUuid)} />],
          ["Machine", <Machine uuid={machineUuid} hash={machine} />],
          ["Journal", <code>{journal}</code>],
          ["Number", renderCount(number)],
          ["Made", <Minute at={madeAt} />],
          ["Clients", clients.length === 0 ? "none" : <Foreign text={clients.join(", ")} />],
          ["Days with use", renderCount(days)],
          ["Events", renderCount(events.length)],
        ]}
      />
      <Table
        caption="The inferences of the report by month"
        columns={MONTHS}
        rows={months}
        none={<p class="empty">The report has no inference.</p>}
      />
    </>
  );
}

/** The machine with its page; one that never held a place has none. */
function Machine({ uuid, hash }: { readonly uuid: string | null; readonly hash: string }) {
  if (uuid === null) return <code>{hash}</code>;
  const id = toId("mch", uuid);
  return <a href={`/console/machines/${id}`}>{id}</a>;
}

const MONTHS: readonly Column<ChangedMonth>[] = [
  { label: "Month", cell: ({ month }) => month },
  numeric("In the report", ({ units }) => renderCount(units)),
  numeric("Beyond the limit", ({ over }) => renderCount(over)),
  numeric("Used before", ({ before }) => renderCount(before.used)),
  numeric("Used after", ({ after }) => renderCount(after.used)),
  numeric("All beyond the limit", ({ after }) => renderCount(after.over)),
];

const large = (route: ConsoleRoute): ConsoleRoute => ({ ...route, formLimitBytes: FORM_LIMIT_BYTES });

export const REPORT_PAGES: readonly ConsoleRoute[] = [
  page(PATH, "usage:import", (visit) => formPage(visit)),
  large(form(PATH, "usage:import", previewPage)),
  large(form(`${PATH}/import`, "usage:import", importPage)),
];
