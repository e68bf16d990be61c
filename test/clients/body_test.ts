/** A body is a JSON object in UTF-8 without a Content-Encoding, on every endpoint that accepts a body. */
import { beforeAll, expect, test } from "bun:test";
import { expectRefusal } from "../support/answers.ts";
import { ENDPOINTS, WITH_BODY } from "../support/endpoints.ts";
import { setToken } from "../support/installer.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();

beforeAll(async () => {
  await setToken(service);
});

const validate = (body: string | Uint8Array, headers = {}) =>
  service.send(ENDPOINTS.validate.path, { method: "POST", body, headers });

const NOT_OBJECTS = [
  "null",
  "true",
  "5",
  '"text"',
  "[]",
  '[{"api_key":"x"}]',
  " ",
  "{",
  "{}{}",
  "{a:1}",
  "\uFEFF{",
  "\u0000",
];

for (const { title, path, fields } of WITH_BODY) {
  test(`${title} refuses a body that is not a JSON object`, async () => {
    for (const body of NOT_OBJECTS) expectRefusal(await service.post(path, body), 400, "INVALID_REQUEST");
  });

  test(`${title} refuses 60,000 open brackets`, async () => {
    expectRefusal(await service.post(path, "[".repeat(60_000)), 400, "INVALID_REQUEST");
    expectRefusal(await service.post(path, '{"a":'.repeat(12_000)), 400, "INVALID_REQUEST");
  });

  test(`${title} ignores an unknown field of any depth`, async () => {
    const { apiKey } = await service.issue();
    const deep = `${"[".repeat(30_000)}${"]".repeat(30_000)}`;
    const known = JSON.stringify({ api_key: apiKey, ...fields }).slice(1);
    expect((await service.post(path, `{"unknown":${deep},${known}`)).status).toBeLessThan(300);
  });

  for (const encoding of ["gzip", "br", "deflate", "zstd", "x-unknown", "gzip, identity", "identity, gzip"]) {
    test(`${title} refuses a Content-Encoding of ${encoding}`, async () => {
      const { apiKey } = await service.issue();
      const answer = await service.post(
        path,
        { api_key: apiKey, ...fields },
        { "Content-Encoding": encoding },
      );
      expectRefusal(answer, 415, "UNSUPPORTED_MEDIA_TYPE");
      expect(answer.headers.get("accept-encoding")).toBe("identity");
    });
  }

  test(`${title} accepts a Content-Encoding of identity`, async () => {
    for (const encoding of ["identity", "Identity", ""]) {
      const { apiKey } = await service.issue();
      const answer = await service.post(
        path,
        { api_key: apiKey, ...fields },
        { "Content-Encoding": encoding },
      );
      expect(answer.status).toBeLessThan(300);
    }
  });

  test(`${title} ignores the content type`, async () => {
    for (const type of ["application/x-www-form-urlencoded", "text/plain; charset=utf-16", "nonsense"]) {
      const { apiKey } = await service.issue();
      const answer = await service.post(path, { api_key: apiKey, ...fields }, { "Content-Type": type });
      expect(answer.status).toBeLessThan(300);
    }
  });

  test(`${title} uses the last value of a repeated name`, async () => {
    const { apiKey } = await service.issue();
    const known = JSON.stringify({ api_key: apiKey, ...fields }).slice(1);
    expectRefusal(await service.post(path, `{${known.slice(0, -1)},"api_key":"x"}`), 400, "INVALID_FORMAT");
    expect((await service.post(path, `{"api_key":"x",${known}`)).status).toBeLessThan(300);
  });
}

test("POST /v1/auth/validate accepts a key with JSON escapes, and white space around the object", async () => {
  const { apiKey } = await service.issue();
  const escaped = apiKey.replace("s", "\\u0073");
  expect(await validate(`\r\n\t {"api_key" : "${escaped}"} \n`)).toMatchObject({ status: 200 });
});

test("POST /v1/auth/validate refuses a key with bytes that are not UTF-8", async () => {
  const body = Buffer.from(`{"api_key":"${UNKNOWN_KEY.slice(0, -1)}\xff"}`, "latin1");
  expectRefusal(await validate(body), 400, "INVALID_FORMAT");
});

test("POST /v1/auth/validate refuses a body in UTF-16", async () => {
  expectRefusal(await validate(Buffer.from('{"api_key":"x"}', "utf16le")), 400, "INVALID_REQUEST");
});

test("POST /v1/auth/validate ignores unknown fields with numbers out of range", async () => {
  const { apiKey } = await service.issue();
  expect(await validate(`{"api_key":"${apiKey}","n":1e400,"__proto__":null}`)).toMatchObject({ status: 200 });
});
