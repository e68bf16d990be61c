/** Usage and the figures of all customers, for operators. */
import { route } from "../frame/api/route.ts";
import { page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { getFigures, listUsageByDay } from "./figures_routes.ts";
import { usageCsv, usagePage } from "./usage.tsx";
import { listUsageOperation } from "./usage_routes.ts";

export const usage: Thing = {
  label: "Usage",
  pages: [page("/usage", "usage:read", usagePage), page("/usage.csv", "usage:read", usageCsv)],
  api: [
    route("GET", "/usage", "usage:read", listUsageOperation),
    route("GET", "/usage/daily", "usage:read", listUsageByDay),
    route("GET", "/figures", "usage:read", getFigures),
  ],
};
