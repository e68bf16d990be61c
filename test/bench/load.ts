/**
 * The load's process. It reads a line of JSON for each job on its standard input, and writes a line with each result to
 * its standard output. It ends when its input ends, and so together with the process that started it.
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
