/**
 * A route of the API and its operation: the fields that it takes, its answers, and the function that carries it out. The
 * OpenAPI document is rendered from the same value that checks the requests, so the two cannot differ.
 */
import * as v from "valibot";
import type { Actor } from "../../../audit/mod.ts";
import type { Brand } from "../../../brand.ts";
import type { Restriction } from "../../../licensing/mod.ts";
import type { Scope, Token } from "../../../operators/mod.ts";
import { type Code, isRefusal, type Refusal } from "../../../refusal.ts";
import type { DescribedAnswer, DescribedOperation } from "../../../wire/mod.ts";
import type { AdminOptions } from "../options.ts";
import { type Fields, parseSent } from "./parse_sent.ts";
import type { Params, PathReader } from "./path_ids.ts";

/** One request of a program. */
export interface Call {
  readonly token: Token;
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

export interface Success extends Omit<DescribedAnswer, "schema"> {
  /** 200 by default. */
  readonly status?: 200 | 201;
  readonly schema: v.GenericSchema;
}

/** Returns the schema of an object that has a name of its own in the OpenAPI document. */
export function titled<Entries extends v.ObjectEntries>(title: string, entries: Entries) {
  return v.pipe(v.object(entries), v.title(title));
}

/** The result of an operation: a value for JSON, a response that is complete already, or a refusal. */
export type Result = object | Response | Refusal;

interface Specification<Path extends object, Query extends Fields, Body extends Fields>
  extends Pick<DescribedOperation, "id" | "summary" | "description" | "others"> {
  /** Reads what the path names. `run` gets it with the call. */
  readonly path?: PathReader<Path>;
  readonly query?: Query;
  /** The schema, or a function that creates it if it depends on the brand. */
  readonly body?: Body | ((brand: Brand) => Body);
  readonly success: Success;
  /** The codes of its refusals, besides that of its path and those that every operation has. */
  readonly codes?: readonly Code[];
  /** True if the answer contains an API key: then the request must have an `Idempotency-Key`. */
  readonly needsIdempotencyKey?: boolean;
  run(
    options: AdminOptions,
    call: Call & Path & { readonly query: v.InferOutput<Query>; readonly body: v.InferOutput<Body> },
  ): Promise<Result>;
}

export interface Operation extends Omit<Specification<object, Fields, Fields>, "body" | "run"> {
  /** Returns the schema of the body; undefined if the operation has none. */
  bodyFor(brand: Brand): Fields | undefined;
  /** Checks the fields and carries the operation out. */
  perform(
    options: AdminOptions,
    call: Call,
    sent: { readonly query: unknown; readonly body: unknown },
  ): Promise<Result>;
}

/** A request that the API answers, and the scope that its token needs. */
export interface Route {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
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
  specification: Specification<Path, Query, Body>,
): Route {
  const { run, body, ...described } = specification;
  const [method, path = ""] = at.split(" ") as [Route["method"], string];
  const bodyFor = (brand: Brand) => (typeof body === "function" ? body(brand) : body);
  const operation: Operation = {
    ...described,
    bodyFor,
    async perform(options, call, sent) {
      const query = parseSent(specification.query ?? NO_FIELDS, sent.query, "query");
      if (isRefusal(query)) return query;
      const fields = parseSent(bodyFor(options.brand) ?? NO_FIELDS, sent.body, "body");
      if (isRefusal(fields)) return fields;
      const named = specification.path?.read(call.params) ?? {};
      if (isRefusal(named)) return named;
      return await run(options, {
        ...call,
        ...(named as Path),
        query: query as v.InferOutput<Query>,
        body: fields as v.InferOutput<Body>,
      });
    },
  };
  return { method, path, scope, operation };
}
