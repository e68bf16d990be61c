/** Models, for operators. */
import { detailRoutes } from "../frame/console/detail_page.tsx";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { ADD_ROUTES } from "./add_model.tsx";
import { MODEL_PAGE } from "./model.tsx";
import { MODELS } from "./models.tsx";
import { MODEL_ROUTES } from "./models_routes.ts";
import { UPLOAD } from "./upload.tsx";

export const models: Thing = {
  label: "Models",
  pages: [...listRoutes(MODELS), ...ADD_ROUTES, ...detailRoutes(MODEL_PAGE), UPLOAD],
  api: MODEL_ROUTES,
};
