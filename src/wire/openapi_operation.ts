import type { Code } from "../base/refusal.ts";
import type { Json } from "./json_schema.ts";

/** The JSON body of a request. */
interface RequestBody {
  /** The name of its schema. */
  readonly schema: string;
  readonly required: boolean;
  readonly description?: string;
  readonly example?: Json;
}

/** An answer that is not a refusal. */
export interface DescribedAnswer {
  /** 200 by default. `default` stands for all answers that are not listed; their headers are not described. */
  readonly status?: number | "default";
  readonly description: string;
  /** The name of the schema of a JSON body. */
  readonly schema?: string;
  readonly example?: Json;
  /** OpenAPI's `content` for bodies that are not JSON. */
  readonly content?: Json;
  /** The names of the headers besides those that every answer of the operation has. */
  readonly headers?: readonly string[];
}

/** Fields of an operation under OpenAPI's names. The document keeps the order in which the listener writes them. */
interface About {
  /** One sentence without a period. */
  readonly summary: string;
  readonly description?: string | undefined;
  /** The group to which it belongs. */
  readonly tags: readonly [string];
  /** Where the key may be; by default as the document says. */
  readonly security?: readonly Json[];
  /** The scope that a token needs. */
  readonly "x-required-scope"?: string | undefined;
}

/** One method of one path. */
export interface DescribedOperation {
  /** The path, with its parameters in braces. */
  readonly path: string;
  readonly method: "get" | "head" | "post" | "put" | "patch" | "delete";
  /** Its name in generated clients. */
  readonly id: string;
  readonly about: About;
  readonly parameters?: readonly Json[];
  readonly request?: RequestBody | undefined;
  /** What its body is, if that is a file. */
  readonly file?: string;
  /** True if its requests are counted in a window, which the headers of the answers show. */
  readonly isCounted: boolean;
  readonly success: DescribedAnswer;
  /** The other answers that are not refusals. */
  readonly others?: readonly DescribedAnswer[] | undefined;
  /** The codes of its refusals. */
  readonly codes: readonly Code[];
}
