/** The tiers and what each gives its licenses, for operators. */
import { detailRoutes } from "../frame/console/detail_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { TIERS_PAGE } from "./tiers.tsx";
import { TIER_ROUTES } from "./tiers_routes.ts";

export const tiers: Thing = {
  label: "Tiers",
  pages: detailRoutes(TIERS_PAGE),
  api: TIER_ROUTES,
};
