import { beforeAll, describe, expect, test } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { ODD_METADATA } from "../hostile_input/odd_values.ts";
import { expectRefusal } from "../support/answers.ts";
import { uuidOf } from "../support/keys.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();
let key: IssuedKey;

beforeAll(async () => {
  key = await service.issue();
});

const log = (event: object, by = key) => service.post("/v1/analytics/log", { api_key: by.apiKey, ...event });

/** Returns the stored events of a key, oldest first. */
async function storedOf({ id }: { id: string }) {
  return await service.database.query<Record<string, unknown>>(
    (sql) => sql`
      select event_type, model_name, inference_type, duration_ms, success, error_message, metadata,
             'evt_' || replace(id::text, '-', '') as event_id, license_id, received_at
        from events where key_id = ${uuidOf({ id } as IssuedKey)}::uuid order by received_at, id`,
  );
}

/** Logs an event, expects it to be accepted, and returns its stored row. */
async function logAndRead(event: object) {
  const fresh = await service.issue();
  const { status, body } = await log(event, fresh);
  expect({ status, body }).toMatchObject({ status: 202, body: { logged: true } });
  const stored = await storedOf(fresh);
  expect(stored).toHaveLength(1);
  return stored[0] ?? {};
}

test("POST /v1/analytics/log acknowledges an event with its identifier and the quota", async () => {
  const fresh = await service.issue({ monthlyLimit: 10 });
  const { status, body } = await log({ event_type: "inference" }, fresh);
  expect(status).toBe(202);
  expect(body).toEqual({
    logged: true,
    event_id: expect.stringMatching(/^evt_[0-9a-f]{12}7[0-9a-f]{19}$/),
    quota: { used: 1, remaining: 9 },
  });
  expect((await storedOf(fresh))[0]?.event_id).toBe(body.event_id);
});

test("POST /v1/analytics/log stores every field of an event", async () => {
  const metadata = { device: "cap", ключ: [1, null, true, { __proto__x: 1.5 }] };
  const event = {
    event_type: "error",
    model_name: "p300_binary_v1",
    inference_type: "streaming",
    duration_ms: 12.5,
    success: true,
    error_message: "Żółć 🧠",
    metadata,
  };
  expect(await logAndRead(event)).toMatchObject(event);
});

for (const [type, success] of [
  ["inference", true],
  ["model_load", true],
  ["error", false],
] as const) {
  for (const given of [{}, { success: null }]) {
    const what = JSON.stringify(given);
    test(`POST /v1/analytics/log stores success ${success} for ${type} sent with ${what}`, async () => {
      expect(await logAndRead({ event_type: type, ...given })).toMatchObject({ event_type: type, success });
    });
  }
  test(`POST /v1/analytics/log stores success ${!success} where ${type} says so`, async () => {
    expect(await logAndRead({ event_type: type, success: !success })).toMatchObject({ success: !success });
  });
}

const ABSENT = {
  model_name: null,
  inference_type: null,
  duration_ms: null,
  error_message: null,
  metadata: null,
};

for (const [what, fields] of [
  ["absent", {}],
  ["null", ABSENT],
] as const) {
  test(`POST /v1/analytics/log stores null for optional fields that are ${what}`, async () => {
    expect(await logAndRead({ event_type: "model_load", ...fields })).toMatchObject(ABSENT);
  });
}

test("POST /v1/analytics/log ignores unknown fields with any value", async () => {
  const fields = {
    id: 5,
    received_at: "1999-01-01",
    key_id: null,
    colour: "\u0000",
    constructor: [],
    toString: 1,
  };
  const stored = await logAndRead({ event_type: "inference", ...fields });
  expect(Math.abs((stored.received_at as Date).getTime() - Date.now())).toBeLessThan(60_000);
});

test("POST /v1/analytics/log keeps a metadata key of __proto__ as data", async () => {
  const fresh = await service.issue();
  const body = `{"api_key":"${fresh.apiKey}","event_type":"error","metadata":{"__proto__":{"success":true}}}`;
  expect(await service.post("/v1/analytics/log", body)).toMatchObject({ status: 202 });
  const [stored] = await storedOf(fresh);
  expect(JSON.stringify(stored?.metadata)).toBe('{"__proto__":{"success":true}}');
});

test("POST /v1/analytics/log blanks keys in an event's texts and stores the rest", async () => {
  const { apiKey } = await service.issue();
  const checksum = "0123456789abcdef".repeat(4);
  const stored = await logAndRead({
    event_type: "error",
    model_name: `m ${apiKey}`,
    error_message: `cannot get https://h/?api_key=${apiKey}&type=a`,
    metadata: { [apiKey]: [{ command: `curl -H "X-API-Key: ${apiKey.toUpperCase()}"` }], checksum },
  });
  expect(stored).toMatchObject({
    model_name: "m [key]",
    error_message: "cannot get https://h/?api_key=[key]&type=a",
    metadata: { "[key]": [{ command: 'curl -H "X-API-Key: [key]"' }], checksum },
  });
});

test("POST /v1/analytics/log blanks keys directly after the escapes of a text", async () => {
  for (const metadata of ODD_METADATA) {
    const fresh = await service.issue();
    const body = `{"api_key":"${fresh.apiKey}","event_type":"error","metadata":${metadata}}`;
    expect(await service.post("/v1/analytics/log", body)).toMatchObject({ status: 202 });
    const [stored] = await service.database.query<{ metadata: string }>(
      (sql) => sql`select metadata::text from events where license_id = ${fresh.licenseUuid}::uuid`,
    );
    expect(stored?.metadata).toContain("[key]");
    expect(stored?.metadata).not.toMatch(/_live_[0-9a-f]{8}|[0-9a-f]{48}/);
  }
});

describe("POST /v1/analytics/log", () => {
  for (const type of [undefined, null, ""]) {
    test(`answers MISSING_EVENT_TYPE to the event type ${JSON.stringify(type)}`, async () => {
      expectRefusal(await log({ event_type: type }), 400, "MISSING_EVENT_TYPE");
    });
  }
  for (const type of ["training", "Inference", " inference", "inference\u0000", 5, false, [], {}]) {
    test(`names the three known event types to ${JSON.stringify(type)}`, async () => {
      const answer = await log({ event_type: type });
      expectRefusal(answer, 400, "INVALID_REQUEST");
      for (const known of ["inference", "model_load", "error"]) expect(answer.body.error).toContain(known);
    });
  }
});

/** Returns metadata whose JSON has exactly `bytes` bytes. */
function metadataOf(bytes: number) {
  const frame = JSON.stringify({ text: "" }).length;
  return { text: "x".repeat(bytes - frame) };
}

/** Returns an object with `levels` levels; the object itself is the first. */
function nested(levels: number): object {
  return levels === 1 ? {} : { a: nested(levels - 1) };
}

/** Returns an object with `levels` levels, of which all but the first are arrays. */
function nestedArrays(levels: number): object {
  let value: unknown[] = [];
  for (let level = 2; level < levels; level++) value = [value];
  return { a: value };
}

const taken: readonly (readonly [what: string, fields: object])[] = [
  ["a model name of 200 characters", { model_name: "🧠".repeat(200) }],
  ["an empty model name", { model_name: "" }],
  ["an error message of 2,000 characters", { error_message: "ü".repeat(2_000) }],
  ["a duration of 0", { duration_ms: 0 }],
  ["a duration of the largest number", { duration_ms: Number.MAX_VALUE }],
  ["a duration of the smallest number", { duration_ms: Number.MIN_VALUE }],
  ["metadata of 16 KiB", { metadata: metadataOf(16 * 1024) }],
  ["metadata of 32 levels", { metadata: nested(32) }],
  ["metadata of 32 levels of arrays", { metadata: nestedArrays(32) }],
  ["metadata with the largest numbers", { metadata: { most: Number.MAX_VALUE, least: Number.MIN_VALUE } }],
  ["metadata with paired surrogates and controls", { metadata: { "\u0001🧠": "\uD83E\uDDE0\u001f\n" } }],
];
for (const [what, fields] of taken) {
  test(`POST /v1/analytics/log accepts ${what}`, async () => {
    expect(await logAndRead({ event_type: "model_load", ...fields })).toMatchObject(fields);
  });
}

const refused: readonly (readonly [what: string, fields: string])[] = [
  ...(["model_name", "error_message"] as const).flatMap((name) => [
    [`a ${name} that is a number`, `"${name}": 5`] as const,
    [`a ${name} that is an array`, `"${name}": ["x"]`] as const,
    [`a ${name} with NUL`, `"${name}": "a\\u0000"`] as const,
    [`a ${name} with an unpaired surrogate`, `"${name}": "\\uD800"`] as const,
    [`a ${name} with U+FFFD`, `"${name}": "\uFFFD"`] as const,
  ]),
  ["a model name of 201 characters", `"model_name": "${"x".repeat(201)}"`],
  ["an error message of 2,001 characters", `"error_message": "${"x".repeat(2_001)}"`],
  ["an unknown inference type", '"inference_type": "bulk"'],
  ["an empty inference type", '"inference_type": ""'],
  ["a negative duration", '"duration_ms": -0.001'],
  ["a duration that exceeds the largest number", '"duration_ms": 1e400'],
  ["a duration that is text", '"duration_ms": "12"'],
  ["a success that is text", '"success": "true"'],
  ["a success that is a number", '"success": 1'],
  ["metadata that is an array", '"metadata": []'],
  ["metadata that is text", '"metadata": "{}"'],
  ["metadata of 16 KiB and one byte", `"metadata": ${JSON.stringify(metadataOf(16 * 1024 + 1))}`],
  [
    "metadata with too many bytes, though not too many characters",
    `"metadata": {"a": "${"ü".repeat(8_200)}"}`,
  ],
  ["metadata of 33 levels", `"metadata": ${JSON.stringify(nested(33))}`],
  ["metadata of 33 levels of arrays", `"metadata": ${JSON.stringify(nestedArrays(33))}`],
  ["metadata with a number that exceeds the largest number", '"metadata": {"a": [1, {"b": -1e400}]}'],
  ["metadata with NUL in a text", '"metadata": {"a": ["\\u0000"]}'],
  ["metadata with NUL in a key", '"metadata": {"a": {"\\u0000": 1}}'],
  ["metadata with an unpaired surrogate in a text", '"metadata": {"a": "\\uDC00"}'],
  ["metadata with an unpaired surrogate in a key", '"metadata": {"\\uD800": 1}'],
  ["metadata with an unpaired surrogate below __proto__", '"metadata": {"__proto__": {"a": "\\ud800"}}'],
  ["metadata with U+FFFD in a text", '"metadata": {"a": "\uFFFD"}'],
];
for (const [what, fields] of refused) {
  test(`POST /v1/analytics/log refuses ${what} and stores nothing`, async () => {
    const fresh = await service.issue();
    const body = `{"api_key": "${fresh.apiKey}", "event_type": "inference", ${fields}}`;
    const answer = await service.post("/v1/analytics/log", body);
    expectRefusal(answer, 400, "INVALID_REQUEST");
    expect(answer.body.error).toContain(fields.split('"')[1]);
    expect(await storedOf(fresh)).toEqual([]);
  });
}

test("POST /v1/analytics/log refuses metadata as deep as a body can hold", async () => {
  const levels = 32_000;
  const deep = `{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`;
  const body = `{"api_key":"${key.apiKey}","event_type":"error","metadata":${deep}}`;
  expectRefusal(await service.post("/v1/analytics/log", body), 400, "INVALID_REQUEST");
});

test("POST /v1/analytics/log refuses bytes that are not UTF-8 in a text", async () => {
  const text = `{"api_key":"${key.apiKey}","event_type":"error","error_message":"\xff\xfe"}`;
  const answer = await service.send("/v1/analytics/log", {
    method: "POST",
    body: Buffer.from(text, "latin1"),
  });
  expectRefusal(answer, 400, "INVALID_REQUEST");
});
