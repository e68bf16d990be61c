/**
 * An operation of the API: the fields that a route takes, its answers, and the function that carries it out. The
 * OpenAPI document is rendered from the same value that checks the requests, so the two cannot differ.
 */
import * as v from "valibot";
import type { Actor } from "../../../audit/mod.ts";
import type { Brand } from "../../../brand.ts";
import type { Restriction } from "../../../licensing/mod.ts";
import type { Token } from "../../../operators/mod.ts";
import type { Code } from "../../../refusal.ts";
import { isRefusal, type Refusal } from "../../../refusal.ts";
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

const NO_FIELDS = v.strictObject({});

/** Defines an operation. */
export function operation<
  Path extends object = object,
  Query extends Fields = typeof NO_FIELDS,
  Body extends Fields = typeof NO_FIELDS,
>(specification: Specification<Path, Query, Body>): Operation {
  const { run, body, ...described } = specification;
  const bodyFor = (brand: Brand) => (typeof body === "function" ? body(brand) : body);
  return {
    ...described,
    bodyFor,
    async perform(options, call, sent) {
      const query = parseSent(specification.query ?? NO_FIELDS, sent.query, "query");
      if (isRefusal(query)) return query;
      const fields = parseSent(bodyFor(options.brand) ?? NO_FIELDS, sent.body, "body");
      if (isRefusal(fields)) return fields;
      const path = specification.path?.read(call.params) ?? {};
      if (isRefusal(path)) return path;
      return await run(options, {
        ...call,
        ...(path as Path),
        query: query as v.InferOutput<Query>,
        body: fields as v.InferOutput<Body>,
      });
    },
  };
}
