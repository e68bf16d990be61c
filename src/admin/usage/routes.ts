/** Usage and the figures of all customers, for operators. */
import { page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { getFigures } from "./figures_routes.ts";
import { REPORT_PAGES } from "./import_report.tsx";
import { importReportRoute } from "./reports_routes.ts";
import { usageCsv, usagePage } from "./usage.tsx";
import { listUsageByDay, listUsageRoute } from "./usage_routes.ts";

export const usage: Thing = {
  label: "Usage",
  pages: [
    page("/usage", "usage:read", usagePage),
    page("/usage.csv", "usage:read", usageCsv),
    ...REPORT_PAGES,
  ],
  api: [listUsageRoute, listUsageByDay, getFigures, importReportRoute],
};
