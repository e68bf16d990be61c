import { expect, test } from "bun:test";
import packageJson from "../../package.json" with { type: "json" };
import { BUN_CRATES, listPackages, POSTGRES, ZIG_RUNTIME } from "../../src/build/parts.ts";
import vex from "../../src/build/vex.json" with { type: "json" };
import { renderVex } from "../../src/build/vex.ts";

/** The words of OpenVEX 0.2.0 for why a product is not affected. */
const JUSTIFICATIONS = [
  "component_not_present",
  "inline_mitigations_already_exist",
  "vulnerable_code_cannot_be_controlled_by_adversary",
  "vulnerable_code_not_in_execute_path",
  "vulnerable_code_not_present",
];

interface Statement {
  readonly products: readonly { readonly subcomponents: readonly { readonly "@id": string }[] }[];
  readonly status_notes?: string;
}

const inside = [
  { name: "bun", version: packageJson.engines.bun },
  ...listPackages("bun"),
  POSTGRES,
  ZIG_RUNTIME,
  ...BUN_CRATES.map(({ name, version }) => ({ name: `cargo/${name}`, version })),
].map(({ name, version }) => `${name}@${version}`);

test("vex.json was reviewed for the versions that are inside, and for no other", () => {
  const named = [...vex.withoutKnownFaults, ...new Set(vex.statements.map(({ part }) => part))];
  expect(named.toSorted()).toEqual(inside.toSorted());
});

test("vex.json says of each fault of a part once why it does not matter", () => {
  const faults = vex.statements.flatMap(({ part, faults }) => faults.map((fault) => `${part} ${fault}`));
  expect(faults).toEqual([...new Set(faults)]);
  for (const { status, justification, reason, faults } of vex.statements) {
    expect(status).toBe("not_affected");
    expect(JUSTIFICATIONS).toContain(justification);
    expect(reason).toMatch(/^[A-Z].{40,}\.$/);
    for (const fault of faults) expect(fault).toMatch(/^((CVE|RUSTSEC)-\d{4}-\d{4,}|GHSA(-[a-z0-9]{4}){3})$/);
  }
});

test("renderVex() says with each fault of PostgreSQL why the release that mends it is not inside", () => {
  const statements: readonly Statement[] = JSON.parse(renderVex()).statements;
  for (const { products, status_notes = "" } of statements) {
    const part = products[0]?.subcomponents[0]?.["@id"] ?? "";
    expect(status_notes).toMatch(part.startsWith("pkg:generic/postgresql@") ? /could not be had/ : /^$/);
  }
});

test("renderVex() names product, part, status, reason and day of each fault", () => {
  const document = JSON.parse(renderVex());
  expect(document).toMatchObject({
    "@context": "https://openvex.dev/ns/v0.2.0",
    timestamp: expect.stringMatching(/^20\d\d-\d\d-\d\dT00:00:00Z$/),
  });
  expect(document.statements).toHaveLength(vex.statements.flatMap(({ faults }) => faults).length);
  expect(document.statements).toContainEqual({
    vulnerability: { name: "RUSTSEC-2026-0199" },
    products: [
      {
        "@id": `pkg:generic/claviger@${packageJson.version}`,
        subcomponents: [{ "@id": "pkg:cargo/bcrypt@0.19.0" }],
      },
    ],
    status: "not_affected",
    justification: "vulnerable_code_not_in_execute_path",
    impact_statement: expect.stringContaining("Bun.password"),
  });
});
