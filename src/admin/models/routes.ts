/** Models, for operators. */
import { route } from "../frame/api/route.ts";
import { actionRoutes } from "../frame/console/action.ts";
import { listRoutes } from "../frame/console/list_page.tsx";
import type { Thing } from "../frame/thing.ts";
import { MODEL_PAGE } from "./model.tsx";
import { MODELS } from "./models.tsx";
import {
  addModelOperation,
  getModel,
  listModelsOperation,
  removeModelOperation,
  retireModelVersion,
} from "./models_routes.ts";

export const models: Thing = {
  label: "Models",
  pages: [...listRoutes(MODELS), ...actionRoutes(MODEL_PAGE, "models:read")],
  api: [
    route("GET", "/models", "models:read", listModelsOperation),
    route("POST", "/models", "models:write", addModelOperation),
    route("GET", "/models/:name", "models:read", getModel),
    route("DELETE", "/models/:name", "models:write", removeModelOperation),
    route("POST", "/models/:name/:version/retire", "models:write", retireModelVersion),
  ],
};
