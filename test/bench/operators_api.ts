/** The API for operators of a service under measurement, and tokens for it: each may send 600 requests a minute. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Stage } from "./stage.ts";

export interface OperatorsApi {
  /** Such as `http://127.0.0.1:8081`. */
  readonly origin: string;
  /** The headers of one token each, to use them in turn. */
  readonly headers: readonly { readonly authorization: string }[];
}

/** Finds the API of the service that runs in a data folder, and issues tokens. */
export async function openOperatorsApi(
  stage: Stage,
  { dataDir, tokens, scopes }: { readonly dataDir: string; readonly tokens: number; readonly scopes: string },
): Promise<OperatorsApi> {
  const headers: { authorization: string }[] = [];
  const options = ["--scope", scopes, "--data-dir", dataDir];
  for (let number = 0; number < tokens; number++) {
    const shown = await stage.command(["tokens", "issue", "--name", `bench-${number}`, ...options]);
    headers.push({ authorization: `Bearer ${/\bsvc_op_[0-9a-f]{48}\b/.exec(shown)?.[0] ?? ""}` });
  }
  const { admin } = JSON.parse(readFileSync(join(dataDir, "serving"), "utf8"));
  return { origin: `http://${admin.host}:${admin.port}`, headers };
}
