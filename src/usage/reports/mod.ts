/**
 * Reports of use: files by which a machine without a network says what it used. An operator imports them. A report can count
 * units beyond the quota, because they are facts, and it makes no room for a request.
 */
export {
  createRefusedNumbers,
  foreseeReports,
  type ImportOptions,
  importReport,
  type ReportResult,
} from "./import_report.ts";
export { parseReport, type UsageReport } from "./parse_report.ts";
export { describeOrigin, describeReport, REPORT_FIELDS, renderReport } from "./render_report.ts";
export {
  createReportImports,
  nothingImported,
  openReportDatabase,
  type ReportImports,
  type Taken,
} from "./report_imports.ts";
export { type ChangedMonth, monthOfFirstDay } from "./standing.ts";
export { REPORT_LIMIT_BYTES } from "./verify_report.ts";
