/** A route of the API: the request that it answers, and the scope that its token needs. */
import type { Scope } from "../../../operators/mod.ts";
import type { Operation } from "./operation.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** As Hono writes paths: `/keys/:id`. */
  readonly path: string;
  /** `any`: every token will do. */
  readonly scope: Scope | "any";
  readonly operation: Operation;
}

/** Defines a route. */
export function route(
  method: Route["method"],
  path: string,
  ...[scope, operation]: readonly [Route["scope"], Operation]
): Route {
  return { method, path, scope, operation };
}
