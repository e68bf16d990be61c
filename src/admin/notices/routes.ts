/** Notices, for operators. */
import { detailRoutes } from "../frame/console/detail_page.tsx";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { MUTED_PAGE } from "./muted.tsx";
import { NOTICE_PAGE } from "./notice.tsx";
import { NOTICES } from "./notices.tsx";
import { NOTICES_ROUTES } from "./notices_routes.ts";

export const notices: Thing = {
  label: "Notices",
  pages: [...listRoutes(NOTICES), ...detailRoutes(MUTED_PAGE), ...detailRoutes(NOTICE_PAGE)],
  api: NOTICES_ROUTES,
};
