/**
 * How long the executable takes from its start to the first 200 of health: on an empty folder, and on
 * one with data. `bun test/bench/start.ts` prints the medians of five rounds, and ends with 1 where one
 * misses its target.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { builtExecutable, createPlace } from "../executable.ts";

const ROUNDS = 5;
const TARGETS_MS = { first: 2_500, later: 800 };

if (!existsSync(builtExecutable)) {
  console.error(`There is no ${builtExecutable}: make build makes it`);
  process.exit(1);
}

const place = createPlace();
const measured = { first: [] as number[], later: [] as number[] };
try {
  for (let round = 0; round < ROUNDS; round++) {
    const dataDir = join(place.folder, `data-${round}`);
    for (const kind of ["first", "later"] as const) {
      const service = await place.serve(dataDir);
      measured[kind].push(service.readyMs);
      await service.stop();
    }
  }
} finally {
  await place.remove();
}

let isMissed = false;
for (const kind of ["first", "later"] as const) {
  const rounds = measured[kind].toSorted((a, b) => a - b);
  const medianMs = rounds[Math.floor(ROUNDS / 2)] ?? Number.NaN;
  isMissed ||= !(medianMs <= TARGETS_MS[kind]);
  const all = rounds.map((ms) => ms.toFixed(0)).join(", ");
  console.log(`${kind} start  ${medianMs.toFixed(0)} ms  (target ${TARGETS_MS[kind]} ms; rounds ${all})`);
}
process.exit(isMissed ? 1 : 0);
