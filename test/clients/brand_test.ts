/** An installation with another brand: the three words of `brand.ts` change, and nothing else. */
import { beforeAll, expect, test } from "bun:test";
import { createBrand } from "../../src/licensing/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { ALL, call, ENDPOINTS } from "../support/endpoints.ts";
import { INSTALLER_TOKEN, setToken } from "../support/installer.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { addTestModel } from "../support/models.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService({ config: { brand: createBrand("acme", { installerHost: "forge" }) } });

beforeAll(async () => {
  await setToken(service);
  await addTestModel(service, { name: "branded", type: "AcmeQDA" });
});

const branded = (path: string) => path.replace("repo-token", "forge-token");

for (const endpoint of ALL) {
  const { method } = endpoint;
  const path = branded(endpoint.path);

  test(`${method} ${path} accepts a key of the brand`, async () => {
    const { apiKey } = await service.issue();
    expect(apiKey).toMatch(/^acme_live_[0-9a-f]{48}$/);
    expect((await call(service, { ...endpoint, path }, apiKey)).status).toBeLessThan(300);
  });

  test(`${method} ${path} refuses a key of another brand as malformed`, async () => {
    const answer = await call(service, { ...endpoint, path }, UNKNOWN_KEY);
    expectRefusal(answer, 400, "INVALID_FORMAT");
    expect(answer.body.error).toContain("acme_live_");
  });
}

test("GET /v1/installer/forge-token returns the token in the brand's field", async () => {
  const { apiKey } = await service.issue({ mode: "test" });
  expect(apiKey).toStartWith("acme_test_");
  const { body } = await service.get("/v1/installer/forge-token", { "X-API-Key": apiKey });
  expect(Object.keys(body)).toEqual(["success", "forge_token", "expires_at", "message"]);
  expect(body.forge_token).toBe(INSTALLER_TOKEN);
});

test("GET /v1/installer/repo-token, the path of another brand, answers NOT_FOUND", async () => {
  const { apiKey } = await service.issue();
  expectRefusal(await call(service, ENDPOINTS.getRepoToken, apiKey), 404, "NOT_FOUND");
});

test("GET /v1/models/list shows the brand's types and filters by them", async () => {
  const { apiKey } = await service.issue();
  const { body } = await service.get(`/v1/models/list?api_key=${apiKey}&type=AcmeQDA`);
  expect(body).toMatchObject({ models: [{ name: "branded", type: "AcmeQDA" }], total: 1 });
});

test("A model with a type of another brand is refused", async () => {
  await expect(addTestModel(service, { name: "foreign", type: "SvcLDA" })).rejects.toThrow(
    "type must be one of",
  );
});
