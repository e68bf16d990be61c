/** The answered requests of clients, for operators. */
import { page } from "../frame/console/route.ts";
import type { Thing } from "../frame/thing.ts";
import { activityPage } from "./activity.tsx";
import { findActivityRoute } from "./activity_routes.ts";

export const activity: Thing = {
  label: "Activity",
  pages: [page("/activity", "status:read", activityPage)],
  api: [findActivityRoute],
};
