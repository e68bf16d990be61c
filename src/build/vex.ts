/**
 * Renders what the published faults of the parts inside mean for this program, in the format OpenVEX
 * (https://github.com/openvex/spec). `vex.json` has the statements, and people review it: when the version of a part
 * changes, and before each release. `vex_test.ts` compares its parts with those of the SBOM.
 */
import packageJson from "../../package.json" with { type: "json" };
import vex from "./vex.json" with { type: "json" };

/** Returns the document as JSON, with a statement for each fault. */
export function renderVex(): string {
  const product = `pkg:generic/claviger@${packageJson.version}`;
  const notes: Readonly<Record<string, string>> = vex.notes;
  const statements = vex.statements.flatMap(({ part, status, justification, reason, faults }) =>
    faults.map((name) => ({
      vulnerability: { name },
      products: [
        {
          "@id": product,
          subcomponents: [{ "@id": part.startsWith("cargo/") ? `pkg:${part}` : `pkg:generic/${part}` }],
        },
      ],
      status,
      justification,
      impact_statement: reason,
      status_notes: notes[part],
    })),
  );
  const document = {
    "@context": "https://openvex.dev/ns/v0.2.0",
    "@id": `${product}#vex`,
    author: "Claviger",
    timestamp: `${vex.reviewed}T00:00:00Z`,
    version: 1,
    statements,
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
