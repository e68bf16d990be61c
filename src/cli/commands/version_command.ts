/** `claviger version`: prints the versions of this program and of its parts. */

import { COMMIT, ORIGINS, POSTGRES_ORIGINS, readOrigin, VERSION } from "../../base/version.ts";
import { migrations } from "../../database/mod.ts";
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
    const inside = platform.postgresInside();
    if (json) {
      const postgres = inside?.version ?? null;
      const postgres_from = inside?.origin ?? null;
      const runtime = isBun ? { bun, node: null } : { bun: null, node };
      return print.document({
        version: VERSION,
        commit: COMMIT,
        origin,
        ...runtime,
        postgres,
        postgres_from,
        schema,
      });
    }
    out(`claviger ${VERSION}
commit        ${COMMIT}
installed as  ${ORIGINS[origin]}
${isBun ? `Bun           ${bun}` : `Node          ${node}`}
PostgreSQL    ${inside === undefined ? "none inside" : `${inside.version} inside, ${POSTGRES_ORIGINS[inside.origin]}`}
schema        ${schema.number} (${schema.name})
`);
  },
});
