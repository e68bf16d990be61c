/**
 * Each field of the operators' API refuses every odd value that the OpenAPI document refuses. A request has the value in
 * all fields that must refuse it. The refusal must name at least one of them and no other field. It may leave some out,
 * so the test sends those again, until each has been named.
 */
import { describe, expect, test } from "bun:test";
import Ajv2020, { type ValidateFunction } from "ajv/dist/2020";
import { renderCursor } from "../../src/admin/frame/api/cursor.ts";
import { renderDocument } from "../../src/admin/frame/api/document.ts";
import { bodyFor } from "../../src/admin/frame/api/route.ts";
import { ROUTES } from "../../src/admin/things.ts";
import { makeSample, nameOf } from "../admin/sample_requests.ts";
import { BRAND, countRows } from "../support/issue.ts";
import { useAdmin } from "../support/use.ts";
import type { JsonSchema } from "./json_schema.ts";
import { NO_VALUES, ODD_VALUES } from "./odd_values.ts";
import { toFields, toObject } from "./requests.ts";

/** Below the limit of a body, which is 64 KiB. */
const ROOM_BYTES = 60_000;

const admin = useAdmin();
// Made before the tests, because it says which of them a route has.
const document = JSON.parse(renderDocument({ brand: BRAND, adminUrl: undefined, routes: ROUTES }));

/** Returns the schema that a `$ref` names, or the schema itself. */
function resolve(schema: JsonSchema): JsonSchema {
  const { $ref } = schema;
  return typeof $ref === "string"
    ? resolve(document.components.schemas[$ref.split("/").at(-1) ?? ""])
    : schema;
}

/** Returns the checks of the fields by the document, by a validator that is not ours, and the required fields. */
function documented({ method, path }: { readonly method: string; readonly path: string }) {
  const { requestBody } = document.paths[path.replaceAll(/:(\w+)/g, "{$1}")][method.toLowerCase()];
  const body = resolve(requestBody.content["application/json"].schema);
  // The formats of texts are the subject of request_schemas_test.ts.
  const ajv = new Ajv2020({ strict: false, strictNumbers: true, validateFormats: false });
  const schemas = Object.entries(body.properties as Record<string, JsonSchema>);
  const fits = schemas.map(([name, schema]): [string, ValidateFunction] => [
    name,
    ajv.compile({ ...schema, components: document.components }),
  ]);
  return { schemas, fits, required: (body.required ?? []) as readonly string[] };
}

/** Returns values just outside the bounds that a schema has, as JSON. */
function beyond(schema: JsonSchema): string[] {
  const { minimum, maximum, minLength, maxLength } = schema as Record<string, number | undefined>;
  const values = [
    minimum !== undefined && minimum - 1,
    maximum !== undefined && maximum + 1,
    minLength && "",
    maxLength !== undefined && "x".repeat(maxLength + 1),
  ];
  const parts = (schema.anyOf ?? []) as readonly JsonSchema[];
  const own = values.filter((value) => typeof value !== "boolean" && value !== undefined);
  return [...own.map((value) => JSON.stringify(value)), ...parts.flatMap((part) => beyond(resolve(part)))];
}

const WITH_FIELDS = ROUTES.filter(
  ({ operation }) => Object.keys(bodyFor(operation, BRAND)?.entries ?? {}).length > 0,
);

describe.each(WITH_FIELDS.map((route) => ({ ...route, title: nameOf(route) })))("$title", (route) => {
  const { fits, schemas, required } = documented(route);

  /** Sends a right request with other fields. Returns the fields that the refusal names. */
  async function prepare() {
    const token = await admin.token();
    const sample = await makeSample(admin, route);
    const { path, headers } = sample;
    const right = Object.entries(sample.body ?? {}).map(([name, value]) => [name, JSON.stringify(value)]);
    return async (changed: Readonly<Record<string, string | undefined>>) => {
      const all: Record<string, string | undefined> = { ...Object.fromEntries(right), ...changed };
      const fields = Object.entries(all).flatMap(([name, json]): [string, string][] =>
        json === undefined ? [] : [[name, json]],
      );
      const body = toObject(toFields(fields));
      const answer = await admin.call(route.method, path, { token, ...(headers && { headers }), body });
      const { code, details = [] } = answer.body;
      const names = new Set<string>(
        details.map(({ field }: { readonly field: string }) => field.replace(/\..*/s, "")),
      );
      return { code: `${answer.status} ${code}`, names, details };
    };
  }

  test("refuses each odd value with the names of all its fields, and changes no row", async () => {
    const send = await prepare();
    const before = await countRows(admin.database);
    const odd = [...NO_VALUES, ...ODD_VALUES, ...schemas.flatMap(([, schema]) => beyond(resolve(schema)))];
    for (const json of new Set(odd)) {
      const value = JSON.parse(json);
      const isForNoField = NO_VALUES.includes(json);
      let left = fits.filter(([, isRight]) => isForNoField || !isRight(value)).map(([name]) => name);
      // A refusal names the fields that are wrong by themselves before those that the settings make wrong.
      while (left.length > 0) {
        const names = left.slice(0, Math.ceil(ROOM_BYTES / (2 * json.length)));
        const answer = await send(Object.fromEntries(names.map((name) => [name, json])));
        const seen = {
          json: json.slice(0, 100),
          code: answer.code,
          others: answer.names.difference(new Set(names)),
        };
        expect(seen).toEqual({ json: json.slice(0, 100), code: "400 INVALID_REQUEST", others: new Set() });
        expect({ names, named: answer.names.size }).not.toEqual({ names, named: 0 });
        left = left.filter((name) => !answer.names.has(name));
      }
    }
    expect(await countRows(admin.database)).toEqual(before);
  });

  if (required.length === 0) return;
  test("names each required field that is missing", async () => {
    const send = await prepare();
    const { code, details } = await send(Object.fromEntries(required.map((name) => [name, undefined])));
    expect(code).toBe("400 INVALID_REQUEST");
    const errors = details.map(({ error }: { readonly error: string }) => error).toSorted();
    expect(errors).toEqual(required.map((name) => `${name} is required`).toSorted());
  });
});

test("Times that the database does not know are refused", async () => {
  const at = ["0000-01-01", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"];
  const { id } = await admin.issue();
  const license = (await admin.call("GET", `/keys/${id}`)).body.license_id;
  const headers = { "idempotency-key": "a key that cannot be issued".replaceAll(" ", "-") };
  const answers = [
    ...at.flatMap((time) => [
      admin.call("GET", `/audit?since=${encodeURIComponent(time)}`),
      admin.call("GET", `/audit?until=${encodeURIComponent(time)}`),
      admin.call("PATCH", `/licenses/${license}`, { body: { expires_at: time } }),
      admin.call("POST", "/keys", {
        body: { email: "a@example.org", tier: "free", expires_at: time },
        headers,
      }),
    ]),
    admin.call("GET", "/usage?month=0000-01"),
    admin.call("GET", `/keys/${id}/usage?month=0001-01`),
  ];
  for (const { status, body } of await Promise.all(answers)) {
    expect({ status, code: body.code }).toEqual({ status: 400, code: "INVALID_REQUEST" });
  }
  const last = { at: new Date("8999-12-31T00:00:00Z"), position: "00000000-0000-7000-8000-000000000000" };
  const after = renderCursor({ name: "keys", filters: { expiring_within: 36_500 } }, last);
  expect((await admin.call("GET", `/keys?expiring_within=36500&after=${after}`)).status).toBe(200);
});
