/** @jsxImportSource hono/jsx */
/**
 * The pages on which a report of use is imported: a form, what the report would change, and what it has changed. The form of
 * the second page passes the report on, so what was shown is what is imported, or the third page says what was.
 */
import * as v from "valibot";
import { toId } from "../../base/ids.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { type ChangedMonth, describeReport, type ReportResult } from "../../usage/mod.ts";
import { CONSENT, Consent } from "../frame/console/components/consent.tsx";
import { Field, TextField } from "../frame/console/components/form.tsx";
import { HiddenFields } from "../frame/console/components/selection.tsx";
import { type Column, Facts, numeric, Table } from "../frame/console/components/table.tsx";
import { Foreign, LicenseLink, Minute } from "../frame/console/components/values.tsx";
import { parseForm, refuseFields, TEXT } from "../frame/console/form_fields.ts";
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
};

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
          <TextField
            {...field("reason")}
            label="Reason (optional)"
            hint="For the audit log. Needed for another journal."
          />
          <div class="actions">
            <button type="submit">Show what would change</button>
            <a href="/console/usage">Cancel</a>
          </div>
        </form>
      </>
    ),
  };
}

/** Reads the form and takes the report; returns the form again if either is refused. */
async function take(visit: Visit, isDryRun: boolean): Promise<ReportResult | Page> {
  const { form, options } = visit;
  const parsed = parseForm(ENTRIES, visit);
  const taken = isRefusal(parsed)
    ? parsed
    : await options.reportImports.take(async () => parsed.fields.report, {
        ...parsed.by,
        newJournal: parsed.fields.new_journal === true,
        isDryRun,
      });
  return isRefusal(taken) ? formPage(visit, { action: "report", form, refusal: asked(taken) }) : taken;
}

/** Shows the refusal of another journal beside the box that allows it. */
function asked(refusal: Refusal): Refusal {
  if (refusal.remedy?.name !== "begin_journal") return refusal;
  const error = `${refusal.stem}. Check the box and give a reason if another journal is meant`;
  return refuseFields([{ field: "new_journal", error }]);
}

async function previewPage(visit: Visit): Promise<Page> {
  const result = await take(visit, true);
  if ("body" in result) return result;
  const sent = ["report", "new_journal", "reason"].flatMap((name): [string, string][] => {
    const value = visit.form.get(name);
    return value === null ? [] : [[name, value]];
  });
  return {
    title: result.outcome === "known" ? "This report is imported already" : "Import this report?",
    script: "submit_once",
    body: (
      <>
        <p role="status">{`${describeReport(result)}.`}</p>
        <Shown result={result} />
        {result.outcome === "known" ? (
          <Back />
        ) : (
          <form method="post" action={`/console${PATH}/import`}>
            <HiddenFields of={sent} />
            <p>Nothing is changed yet. No page can undo the import.</p>
            <div class="actions">
              <button type="submit">Import the report</button>
              <a href={`/console${PATH}`}>Cancel</a>
            </div>
          </form>
        )}
      </>
    ),
  };
}

async function importPage(visit: Visit): Promise<Page> {
  const result = await take(visit, false);
  if ("body" in result) return result;
  return {
    title: result.outcome === "known" ? "This report was imported already" : "Imported a report of use",
    body: (
      <>
        <p tabindex={-1} autofocus role="status">{`${describeReport(result)}.`}</p>
        <Shown result={result} />
        <Back />
      </>
    ),
  };
}

function Back() {
  return (
    <p>
      <a href={`/console${PATH}`}>Import another report</a>
    </p>
  );
}

/** The facts of a report, and the use of each month before and after. */
function Shown({ result: { report, months } }: { readonly result: ReportResult }) {
  const { licenseUuid, machine, journal, number, madeAt, clients, days, events } = report;
  return (
    <>
      <Facts
        facts={[
          ["License", <LicenseLink id={toId("lic", licenseUuid)} />],
          ["Machine", <code>{machine}</code>],
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
