/**
 * A route of the API and its operation: the fields that it takes, its answers, and the function that carries it out. The
 * OpenAPI document is rendered from the same value that checks the requests, so the two cannot differ.
 */
import * as v from "valibot";
import type { Actor, Right } from "../../../audit/mod.ts";
import { type Code, isRefusal, type Refusal } from "../../../base/refusal.ts";
import type { Brand, Restriction } from "../../../licensing/mod.ts";
import type { Scope, Token } from "../../../operators/mod.ts";
import type { DescribedAnswer, DescribedOperation, Json } from "../../../wire/mod.ts";
import type { AdminOptions } from "../options.ts";
import type { PauseTurn } from "../turns.ts";
import { type Fields, parseSent } from "./parse_sent.ts";
import type { Params, PathReader } from "./path_ids.ts";

/** One request of a program. */
export interface Call {
  readonly token: Token;
  /** The right of the token to this route, for a request that takes long. */
  readonly right: Right;
  /** Returns the right of the token to other routes, for a request that needs two scopes. */
  readonly rightTo: (scope: Scope) => Right;
  /** For a request that waits: others of the token must not wait for it. */
  readonly pauseTurn: PauseTurn;
  /** That of the token: the functions of the rooms take it from the call. */
  readonly restriction: Restriction;
  /** The token as the audit log names it, with the request and its address. */
  readonly actor: Actor;
  readonly now: Date;
  readonly params: Params;
  readonly request: Request;
  /** The header `Idempotency-Key`; checked only for operations that require it. */
  readonly idempotencyKey: string;
}

interface Success extends Omit<DescribedAnswer, "schema"> {
  /** 200 by default. */
  readonly status?: 200 | 201;
  /** Absent if the answer is a file, which `content` describes. */
  readonly schema?: v.GenericSchema;
}

/** Returns the schema of an object that has a name of its own in the OpenAPI document. */
export function titled<Entries extends v.ObjectEntries>(title: string, entries: Entries) {
  return v.pipe(v.object(entries), v.title(title));
}

/** The result of an operation: a value for JSON, a response that is complete already, or a refusal. */
type Result = object | Response | Refusal;

/** What a route takes, answers and does. */
export interface Operation<
  Path extends object = object,
  Query extends Fields = Fields,
  Body extends Fields = Fields,
> extends Pick<DescribedOperation, "id" | "others">,
    Pick<DescribedOperation["about"], "summary" | "description"> {
  /** Reads what the path names. `run` gets it with the call. */
  readonly path?: PathReader<Path>;
  readonly query?: Query;
  /** The schema, or a function that creates it if it depends on the brand. */
  readonly body?: Body | ((brand: Brand) => Body);
  readonly success: Success;
  /** The codes of its refusals, besides that of its path and those that every operation has. */
  readonly codes?: readonly Code[];
  /** What the body is, if it is a file: then `run` reads it from the request. */
  readonly file?: string;
  /** Describes the headers that it reads. */
  readonly headers?: readonly Json[];
  /** True if the answer contains an API key: then the request must have an `Idempotency-Key`. */
  readonly needsIdempotencyKey?: boolean;
  run(
    options: AdminOptions,
    call: Call & Path & { readonly query: v.InferOutput<Query>; readonly body: v.InferOutput<Body> },
  ): Promise<Result>;
}

/** A request that the API answers, and the scope that its token needs. */
export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  /** `any`: every token will do. */
  readonly scope: Scope | "any";
  readonly operation: Operation;
}

const NO_FIELDS = v.strictObject({});

/**
 * Defines a route, with the operation that it carries out. `at` is its method, and its path as Hono writes paths:
 * `GET /keys/:id`.
 */
export function route<
  Path extends object = object,
  Query extends Fields = typeof NO_FIELDS,
  Body extends Fields = typeof NO_FIELDS,
>(
  at: `${Route["method"]} /${string}`,
  scope: Route["scope"],
  operation: Operation<Path, Query, Body>,
): Route {
  const [method, path = ""] = at.split(" ") as [Route["method"], string];
  // The compiler cannot tell that `perform` gives `run` the values of the operation's own path and schemas.
  return { method, path, scope, operation: operation as unknown as Operation };
}

/** Returns the schema of the body; undefined if the operation has none. */
export function bodyFor({ body }: Operation, brand: Brand): Fields | undefined {
  return typeof body === "function" ? body(brand) : body;
}

/** Checks the fields that were sent and carries an operation out. */
export async function perform(
  operation: Operation,
  options: AdminOptions,
  { sent, ...call }: Call & { readonly sent: { readonly query: unknown; readonly body: unknown } },
): Promise<Result> {
  const query = parseSent(operation.query ?? NO_FIELDS, sent.query, "query");
  if (isRefusal(query)) return query;
  const body = parseSent(bodyFor(operation, options.brand) ?? NO_FIELDS, sent.body, "body");
  if (isRefusal(body)) return body;
  const named = operation.path?.read(call.params) ?? {};
  if (isRefusal(named)) return named;
  return await operation.run(options, { ...call, ...named, query, body });
}
