/**
 * The process of the load: a line of JSON for each job on its standard input, one with the result of each on
 * its standard output. It ends with its input, and so with whoever started it.
 */
import { createInterface } from "node:readline";
import { generateLoad } from "./generate_load.ts";
import type { LoadJob } from "./load_job.ts";

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await generateLoad(JSON.parse(line) as LoadJob).then(
    (result) => ({ result }),
    (error: unknown) => ({ error: error instanceof Error ? error.message : String(error) }),
  );
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
