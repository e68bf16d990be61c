/** What an operator should know first. */
import { page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { overviewPage } from "./overview.tsx";

export const overview: Thing = {
  label: "Overview",
  pages: [page("/overview", "usage:read", overviewPage)],
  api: [],
};
