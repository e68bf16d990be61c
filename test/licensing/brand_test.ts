import { expect, test } from "bun:test";
import { generateApiKey, keyPattern } from "../../src/licensing/keys/mod.ts";
import { createBrand } from "../../src/licensing/mod.ts";

test("createBrand() returns the contract's brand by default", () => {
  expect(createBrand()).toEqual({
    name: "svc",
    installerHost: "repo",
    modelTypes: ["SvcLDA", "SvcQDA", "SvcProbit"],
  });
});

test("createBrand() uses another name in keys and model types", () => {
  const brand = createBrand("acme", { installerHost: "forge" });
  expect(brand).toEqual({
    name: "acme",
    installerHost: "forge",
    modelTypes: ["AcmeLDA", "AcmeQDA", "AcmeProbit"],
  });
  const { apiKey } = generateApiKey(brand, "live");
  expect(apiKey).toMatch(/^acme_live_[0-9a-f]{48}$/);
  expect(keyPattern(brand).test(apiKey)).toBe(true);
  expect(keyPattern(createBrand()).test(apiKey)).toBe(false);
});

test("createBrand() uses other model types if they are given", () => {
  expect(createBrand("acme", { modelTypes: ["One"] }).modelTypes).toEqual(["One"]);
});
