/**
 * The long form of the generated requests, for `make hostile-input`:
 *
 *     bun test/hostile_input/long_run.ts [--requests 1000000] [--seed N] [--json FILE] [--replay SEED/PATH]
 *
 * Prints its seed first and its counts at the end. Exits with 1 after a failure.
 */
import { parseArgs } from "node:util";
import { stopTestServer } from "../support/postgres.ts";
import { sendGenerated } from "./generated_run.ts";
import { sendGeneratedWithMinting } from "./minting_run.ts";
import { sendToOperators } from "./operator_run.ts";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "1000000" },
    seed: { type: "string" },
    json: { type: "string" },
    replay: { type: "string" },
  },
});
const [replaySeed, path] = values.replay?.split("/") ?? [];
const seed = Number(replaySeed ?? values.seed ?? Math.floor(Math.random() * 2 ** 31));
const requests = path === undefined ? Number(values.requests) : 1;
if (!Number.isInteger(seed) || !Number.isInteger(requests) || requests < 1) {
  console.error("Cannot start: --requests and --seed must be whole numbers");
  process.exit(2);
}
console.log(`seed ${seed}, ${requests} requests`);

let shownMs = performance.now();
const result = await sendGenerated({
  requests,
  seed,
  path,
  onBatch({ requests: sent, seconds }) {
    if (performance.now() - shownMs < 10_000) return;
    shownMs = performance.now();
    console.log(`${sent} requests in ${seconds} s`);
  },
});
// Then one twentieth of the requests on a service that gets its repository tokens from a GitHub App.
const minting =
  path === undefined && result.failure === undefined
    ? await sendGeneratedWithMinting({ requests: Math.ceil(requests / 20), seed })
    : undefined;
// Then one fiftieth to the operators' API.
const operators =
  path === undefined && (result.failure ?? minting?.failure) === undefined
    ? await sendToOperators({ requests: Math.ceil(requests / 50), seed })
    : undefined;
await stopTestServer();
const report = JSON.stringify({ ...result, minting, operators }, null, 2);
console.log(report);
if (values.json !== undefined) await Bun.write(values.json, `${report}\n`);
const failure = result.failure ?? minting?.failure ?? operators?.failure;
if (failure !== undefined) console.error(`Failed: ${failure}`);
process.exit(failure === undefined ? 0 : 1);
