import { describe, expect, test } from "bun:test";
import { newUuid } from "../../src/base/ids.ts";
import { createBrand } from "../../src/licensing/mod.ts";
import { MODEL_RULES, parseNewModel, toMegabytes } from "../../src/models/mod.ts";
import { BRAND, sentenceOf } from "../support/issue.ts";
import { newModel } from "../support/new_model.ts";

const KEY = `svc_live_${"0123456789abcdef".repeat(3)}`;
const shown = (fields: object) => JSON.stringify(fields).slice(0, 70);
const nested = (levels: number): object => (levels === 1 ? {} : { a: nested(levels - 1) });

describe("parseNewModel()", () => {
  const good: object[] = [
    {},
    ...["SvcLDA", "SvcQDA", "SvcProbit"].map((type) => ({ type })),
    ...["motor_imagery", "p300", "ssvep", "erp", "something_else"].map((paradigm) => ({ paradigm })),
    ...["free", "research", "commercial", "enterprise"].map((requiresLicense) => ({ requiresLicense })),
    { nFeatures: 1, nClasses: 2, sizeMb: 1e-6 },
    { downloadUrl: "http://models.example:8080/a%20b?c=d" },
    { downloadUrl: "https://models.example/a@b?user:password@c" },
    { name: "x".repeat(200), version: "1.0.0-rc.1+build" },
    { metadata: nested(32) },
    // A day, a commit and a checksum are no key.
    { name: "erp_test_20261129", version: `1.0+g${"0123456789abcdef".repeat(3).slice(0, 40)}` },
    {
      downloadUrl: `https://models.example/${"0123456789abcdef".repeat(4)}`,
      metadata: { of: "ab".repeat(32) },
    },
    { metadata: { text: 'a literal \\u0000 and "quotes", 💡' } },
    { requiresLicense: "commercial", ownerUuid: newUuid() },
    { requiresLicense: "enterprise", ownerUuid: newUuid() },
  ];

  for (const fields of good) {
    test(`parseNewModel() accepts ${shown(fields)}`, () => {
      expect(parseNewModel(newModel(fields), BRAND)).toMatchObject(fields);
    });
  }

  const wrong: [fields: object, sentence: RegExp][] = [
    [{ name: "" }, /name must be letters/],
    [{ name: "../x" }, /name must be letters/],
    [{ name: "a b" }, /name must be letters/],
    [{ name: "x".repeat(201) }, /name must be letters, digits, .*, at most 200 characters, and no API key$/],
    [{ name: KEY }, /name must be .* no API key$/],
    [{ version: `1.0+${KEY}` }, /version must be .* no API key$/],
    [{ paradigm: KEY }, /paradigm must be .* no API key$/],
    [{ fileName: `${KEY}.onnx` }, /the file must be .* no API key$/],
    [{ downloadUrl: `https://models.example/m?api_key=${KEY}` }, /url must be .* no API key$/],
    [{ downloadUrl: `https://models.example/svc%5Flive%5F${KEY.slice(-48)}` }, /url must be .* no API key$/],
    [{ metadata: { a: [{ text: `with ${KEY}` }] } }, /metadata must hold no API key$/],
    [{ metadata: { [KEY]: 1 } }, /metadata must hold no API key$/],
    [{ version: "1/0" }, /version must be letters/],
    [{ type: "SvcStateSpace" }, /type must not be the state-space kind, which exists only in the client$/],
    [
      { type: "Foo" },
      /type must be one of SvcLDA, SvcQDA, SvcProbit; for another type set CLAVIGER_MODEL_TYPES$/,
    ],
    [{ type: "svclda" }, /type must be one of/],
    [{ paradigm: "" }, /paradigm must be lowercase/],
    [{ paradigm: "P300" }, /paradigm must be lowercase/],
    [{ nFeatures: 0 }, /n-features must be a whole number, at least 1/],
    [{ nFeatures: 1.5 }, /n-features must be a whole number/],
    [{ nClasses: 1 }, /n-classes must be a whole number, at least 2/],
    [{ nClasses: Number.NaN }, /n-classes must be a whole number/],
    [{ sizeMb: -1 }, /size-mb must be a number from 0 to 1000000000/],
    [{ sizeMb: 1e308 }, /size-mb must be a number from 0 to 1000000000/],
    [{ sizeMb: Number.POSITIVE_INFINITY }, /size-mb must be a number from 0 to 1000000000/],
    [{ sizeMb: 0 }, /size-mb must be above 0, because no model file is empty/],
    [{ downloadUrl: "ftp://models.example/m" }, /url must be an http or https address/],
    [{ downloadUrl: "javascript:alert(1)" }, /url must be an http/],
    [{ downloadUrl: " https://models.example/m" }, /url must be an http/],
    [{ downloadUrl: "https://models.example/a b" }, /url must be an http/],
    [{ downloadUrl: "ht\ntps://models.example/m" }, /url must be an http/],
    [{ downloadUrl: "https://models.example/\u0000" }, /url must be an http/],
    [{ downloadUrl: "https://" }, /url must be an http/],
    [
      { downloadUrl: `https://models.example/${"x".repeat(2_000)}` },
      /url must be an http or https address of at most 2000/,
    ],
    ...[
      "https://user:password@models.example/m",
      "https://user@models.example/m",
      "https://:password@models.example/m",
      "HTTP://user:password@models.example/m",
      "https:////user:password@models.example/m",
      "https://\\user:password@models.example/m",
    ].map((downloadUrl): [object, RegExp] => [
      { downloadUrl },
      /url must be an http.* with no user and no password/,
    ]),
    [{ downloadUrl: null }, /must have either a file or an address/],
    [{ hostedBytes: 5 }, /must have either a file or an address/],
    [{ checksum: null }, /must have either a file or an address/],
    [{ checksum: "AB".repeat(32) }, /sha256 must be 64 lowercase/],
    [{ checksum: `sha1:${"ab".repeat(32)}` }, /sha256 must be 64 lowercase/],
    [{ requiresLicense: "trial" }, /requires-license must be one of free/],
    [{ metadata: null }, /metadata must be an object/],
    [{ metadata: [] }, /metadata must be an object/],
    [{ metadata: { "nul\u0000": 1 } }, /metadata must have at most 32 levels/],
    [{ metadata: { deep: ["\ud800"] } }, /metadata must have at most 32 levels/],
    [{ metadata: nested(33) }, /metadata must have at most 32 levels/],
    [{ metadata: { text: "x".repeat(16 * 1024) } }, /metadata must have at most 16384 bytes as JSON/],
    [{ requiresLicense: "free", ownerUuid: newUuid() }, /a custom model requires commercial/],
    [{ requiresLicense: "research", ownerUuid: newUuid() }, /a custom model requires commercial/],
  ];

  for (const [fields, sentence] of wrong) {
    test(`parseNewModel() refuses ${shown(fields)}`, () => {
      const refused = sentenceOf(parseNewModel(newModel(fields), BRAND));
      expect(refused).toStartWith("Cannot add model: ");
      expect(refused).toMatch(sentence);
    });
  }

  test("parseNewModel() applies the rules for custom models before the owner is looked up", () => {
    const parse = (requiresLicense: string) =>
      parseNewModel(newModel({ requiresLicense }), BRAND, { hasOwner: true });
    expect(sentenceOf(parse("research"))).toMatch(/a custom model requires commercial/);
    expect(parse("commercial")).toMatchObject({ requiresLicense: "commercial" });
    expect(parse("commercial")).not.toHaveProperty("ownerUuid");
  });

  test("parseNewModel() accepts a checksum also after sha256:, and keeps its digits", () => {
    const checksum = "cd".repeat(32);
    expect(parseNewModel(newModel({ checksum: `sha256:${checksum}` }), BRAND)).toMatchObject({ checksum });
  });

  test("parseNewModel() accepts the types of its brand only", () => {
    const brand = createBrand("acme");
    expect(parseNewModel(newModel({ type: "AcmeLDA" }), brand)).toMatchObject({ type: "AcmeLDA" });
    expect(sentenceOf(parseNewModel(newModel(), brand))).toContain("AcmeLDA, AcmeQDA, AcmeProbit");
  });
});

test("toMegabytes() rounds to hundredths, but never rounds a size above 0 to 0", () => {
  const sizes = [0, 1, 4_999, 9_999, 10_000, 14_999, 2_345_678];
  expect(sizes.map(toMegabytes)).toEqual([0, 0.000001, 0.004999, 0.009999, 0.01, 0.01, 2.35]);
});

test("The rule for names of files accepts valid names, and refuses a path and a text that could end a header", () => {
  for (const name of ["a", ".hidden", "größe 1.onnx", "x".repeat(255)])
    expect(MODEL_RULES.fileName.parse(name)).toBe(name);
  const refused = [
    "",
    ".",
    "..",
    "-",
    "a/b",
    "a\\b",
    "a\r\nb",
    "a\0",
    "\x7f",
    "\ud800",
    "\ufffd",
    "x".repeat(256),
  ];
  expect(refused.filter((name) => MODEL_RULES.fileName.parse(name) !== undefined)).toEqual([]);
});
