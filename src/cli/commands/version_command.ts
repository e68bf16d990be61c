/** `claviger version`: prints the versions of this program and of its parts. */
import { migrations } from "../../database/mod.ts";
import { COMMIT, ORIGINS, POSTGRES_INSIDE, readOrigin, VERSION } from "../../version.ts";
import { command } from "../command.ts";
import { JSON_FLAG } from "../options.ts";

export const version = command({
  name: "version",
  description:
    "print the version, the commit, how the program came to its host, and the versions of the runtime, PostgreSQL and the schema",
  options: JSON_FLAG,
  run({ json }, { invocation: { platform, out }, print }) {
    const { bun, node } = process.versions;
    const isBun = platform.name === "bun";
    const newest = migrations.at(-1);
    const schema = { number: newest?.number ?? 0, name: newest?.name ?? "" };
    const origin = readOrigin();
    if (json) {
      const postgres = isBun ? POSTGRES_INSIDE : null;
      const runtime = isBun ? { bun, node: null } : { bun: null, node };
      return print.document({ version: VERSION, commit: COMMIT, origin, ...runtime, postgres, schema });
    }
    out(`claviger ${VERSION}
commit        ${COMMIT}
installed as  ${ORIGINS[origin]}
${isBun ? `Bun           ${bun}` : `Node          ${node}`}
PostgreSQL    ${isBun ? `${POSTGRES_INSIDE} inside` : "none inside"}
schema        ${schema.number} (${schema.name})
`);
  },
});
