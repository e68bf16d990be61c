import { expect, test } from "bun:test";
import { createBrand } from "../src/brand.ts";
import { generateApiKey, keyPattern } from "../src/keys/mod.ts";

test("createBrand() is the contract's by default", () => {
  expect(createBrand()).toEqual({
    name: "svc",
    installerHost: "repo",
    modelTypes: ["SvcLDA", "SvcQDA", "SvcProbit"],
  });
});

test("createBrand() carries another name into keys and model types", () => {
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

test("createBrand() takes the model types that are given instead", () => {
  expect(createBrand("acme", { modelTypes: ["One"] }).modelTypes).toEqual(["One"]);
});
