/** Every route of the API below `/admin/v1`, with the scope that a token needs for it. */
import { openApiDocument } from "./document_routes.ts";
import type { Operation } from "./operation.ts";
import type { Route } from "./route.ts";
import { whoami } from "./service_routes.ts";

const getOpenApi = openApiDocument(() => ROUTES);

export const ROUTES: readonly Route[] = [
  route("GET", "/whoami", "any", whoami),
  route("GET", "/openapi.json", "any", getOpenApi),
];

function route(
  method: Route["method"],
  path: string,
  ...[scope, operation]: readonly [Route["scope"], Operation]
): Route {
  return { method, path, scope, operation };
}
