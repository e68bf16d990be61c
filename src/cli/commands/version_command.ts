/** `claviger version`: prints the versions of this program and of its parts. */
import type { Command } from "commander";
import { migrations } from "../../database/mod.ts";
import { COMMIT, POSTGRES_INSIDE, VERSION } from "../../version.ts";
import type { Invocation } from "../invocation.ts";
import { type JsonOptions, withJson } from "../options.ts";
import { printJson } from "../print.ts";

export function addVersionCommand(program: Command, invocation: Invocation): void {
  withJson(program.command("version"))
    .description("print the version, the commit, and the versions of the runtime, PostgreSQL and the schema")
    .action((options: JsonOptions) => showVersion(invocation, options));
}

function showVersion(invocation: Invocation, { json }: JsonOptions): void {
  const { platform, out } = invocation;
  const { bun, node } = process.versions;
  const isBun = platform.name === "bun";
  const newest = migrations.at(-1);
  const schema = { number: newest?.number ?? 0, name: newest?.name ?? "" };
  if (json) {
    const postgres = isBun ? POSTGRES_INSIDE : null;
    const runtime = isBun ? { bun, node: null } : { bun: null, node };
    printJson(invocation, { version: VERSION, commit: COMMIT, ...runtime, postgres, schema });
    return;
  }
  out(`claviger ${VERSION}
commit      ${COMMIT}
${isBun ? `Bun         ${bun}` : `Node        ${node}`}
PostgreSQL  ${isBun ? `${POSTGRES_INSIDE} inside` : "none inside"}
schema      ${schema.number} (${schema.name})
`);
}
