/** Every route of the API below `/admin/v1`, with the scope that a token needs for it. */
import type { Scope } from "../../operators/mod.ts";
import type { Operation } from "./operation.ts";
import { whoami } from "./service_routes.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** As Hono writes paths: `/keys/:id`. */
  readonly path: string;
  /** `any`: every token will do. */
  readonly scope: Scope | "any";
  readonly operation: Operation;
}

export const ROUTES: readonly Route[] = [route("GET", "/whoami", "any", whoami)];

function route(
  method: Route["method"],
  path: string,
  ...[scope, operation]: readonly [Route["scope"], Operation]
): Route {
  return { method, path, scope, operation };
}
