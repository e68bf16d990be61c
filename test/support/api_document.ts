/** Reads an OpenAPI document as rules: which answers an operation may give, and what each of them must look like. */
import { compileSchema, type JsonSchema, type SchemaCheck } from "../hostile_input/json_schema.ts";
import type { JsonResponse } from "./service.ts";

/** Headers that an answer may only have if the document says so. */
const OURS = /^(x-ratelimit-.*|retry-after|allow|etag|www-authenticate|accept-encoding)$/;

export interface AnswerRule {
  /** "json" for a body that `check` checks, "bytes" for a file; undefined if no body is documented. */
  readonly body: "json" | "bytes" | undefined;
  readonly check: SchemaCheck | undefined;
  /** The content types of the body. */
  readonly types: readonly string[];
  readonly codes: readonly string[] | undefined;
  readonly isDocument: boolean;
  readonly headers: readonly HeaderRule[];
}

export interface HeaderRule {
  readonly name: string;
  readonly isRequired: boolean;
  readonly check: (value: string) => boolean;
}

export interface PathRule {
  readonly pattern: RegExp;
  readonly operations: ReadonlyMap<string, ReadonlyMap<number, AnswerRule>>;
  /** The methods that `Allow` must name. */
  readonly methods: readonly string[];
}

interface Documented {
  readonly $ref?: string;
  readonly description?: string;
  readonly headers?: Record<string, { readonly $ref: string }>;
  readonly content?: Record<string, { readonly schema?: JsonSchema }>;
}

export interface ApiDocument {
  readonly paths: Record<string, Record<string, { readonly responses: Record<string, Documented> }>>;
  readonly components: {
    readonly schemas: JsonSchema;
    /** Answers that several operations share; the document of the clients has none. */
    readonly responses?: Record<string, Documented>;
    readonly headers: Record<string, { readonly required: boolean; readonly schema: JsonSchema }>;
  };
}

/** Returns the rules of every path. */
export function readPaths(document: ApiDocument): PathRule[] {
  return Object.entries(document.paths).map(([path, operations]) => toPath(path, operations, document));
}

function toPath(path: string, operations: ApiDocument["paths"][string], document: ApiDocument): PathRule {
  const names = Object.keys(operations).filter((name) => name !== "servers");
  return {
    pattern: new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}$`),
    methods: names.map((name) => name.toUpperCase()),
    operations: new Map(
      names.map((name) => [
        name.toUpperCase(),
        new Map(
          Object.entries(operations[name]?.responses ?? {}).map(([status, each]) => [
            Number(status),
            toAnswerRule(each, document),
          ]),
        ),
      ]),
    ),
  };
}

/** Returns the rule of an answer. */
function toAnswerRule(documented: Documented, document: ApiDocument): AnswerRule {
  const { $ref: reference } = documented;
  const { headers = {}, content } =
    reference === undefined
      ? documented
      : (document.components.responses?.[reference.slice(reference.lastIndexOf("/") + 1)] ?? {});
  const json = content?.["application/json"]?.schema;
  const [, own] = (json?.allOf ?? []) as { properties?: { code?: { "x-extensible-enum"?: string[] } } }[];
  const codes = own?.properties?.code?.["x-extensible-enum"];
  return {
    body: content === undefined ? undefined : json === undefined ? "bytes" : "json",
    check: json && compileSchema(json, document.components),
    types: Object.keys(content ?? {}),
    codes,
    isDocument: json?.$ref === "#/components/schemas/OpenApi",
    headers: Object.entries(headers).map(([name, { $ref }]) => {
      const rule = document.components.headers[$ref.slice($ref.lastIndexOf("/") + 1)];
      if (rule === undefined) throw new Error(`Cannot read the document: it has no ${$ref}`);
      return { name: name.toLowerCase(), isRequired: rule.required, check: toHeaderCheck(rule.schema) };
    }),
  };
}

function toHeaderCheck(schema: JsonSchema): HeaderRule["check"] {
  const { type, minimum = 0, pattern, const: constant } = schema;
  if (type === "integer") return (value) => /^\d+$/.test(value) && Number(value) >= Number(minimum);
  const form = new RegExp(String(pattern ?? ""));
  return (value) => form.test(value) && (constant === undefined || value === constant);
}

/** Returns why the document forbids an answer; undefined if it does not. */
export function problemOf(rule: AnswerRule | undefined, { headers, body }: JsonResponse): string | undefined {
  if (rule === undefined) return "the status is not documented";
  for (const { name, isRequired, check } of rule.headers) {
    const value = headers.get(name);
    if (value === null ? isRequired : !check(value)) return `the header ${name} is ${value}`;
  }
  const documented = rule.headers.map(({ name }) => name);
  for (const name of headers.keys()) {
    if (OURS.test(name) && !documented.includes(name)) return `the header ${name} is not documented`;
  }
  if (rule.body === undefined)
    return body === "" || body === undefined ? undefined : "a body is not documented";
  const [type = ""] = (headers.get("content-type") ?? "").split(";");
  if (!rule.types.includes(type)) return `the content type ${type} is not documented`;
  if (type !== "application/json" || rule.isDocument) return undefined;
  if (rule.codes !== undefined && !rule.codes.includes(body.code)) return `${body.code} is not documented`;
  return rule.check?.(body);
}
