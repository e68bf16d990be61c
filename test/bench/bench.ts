/**
 * `make bench`: measures every speed that the design promises, and prints each with its target next to it. Ends with 1
 * if a row misses its target or could not be measured, with 2 after wrong usage.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { builtExecutable } from "../compiled/executable.ts";
import { compareRuns } from "./comparison.ts";
import { chooseCores } from "./cores.ts";
import { describeMachine, type Machine, renderMachine } from "./machine.ts";
import type { Result } from "./row.ts";
import type { Bench, RowGroup } from "./row_group.ts";
import { GROUPS } from "./row_groups.ts";
import { FULL, QUICK, type Scale } from "./scale.ts";
import { createStage } from "./stage.ts";
import { namesOfShort, renderComparison, renderTable } from "./table.ts";

const USAGE = `Usage: make bench [ARGS="[--quick] [--only ROW]... [--json FILE] [--compare FILE]"]

  --only ROW      measure one row or one group of rows; may be repeated
  --quick         a third of the rounds and a quarter of the keys: for orientation, not for publication
  --json FILE     also write the results to a file
  --compare FILE  print how the ratios changed since an earlier --json FILE

Rows: ${GROUPS.map((group) => `${group.name} (${group.rows.join("; ")})`).join("\n      ")}
`;

/** The file that `--json` writes and `--compare` reads. */
interface Run {
  readonly machine: Machine;
  readonly cores: string;
  /** Missing in older files. */
  readonly scale?: Scale;
  /** Rounds that count although other processes used the cores. */
  readonly disturbed: number;
  readonly rows: readonly Result[];
}

process.exit(await main());

async function main(): Promise<number> {
  const options = readArguments();
  if (options === undefined) return 2;
  if (!existsSync(builtExecutable)) {
    console.error(`There is no ${builtExecutable}; make it by \`make build\``);
    return 2;
  }
  const before = options.compare === undefined ? undefined : readRun(options.compare);
  const machine = describeMachine(new Date());
  const cores = chooseCores();
  const scale = options.quick ? QUICK : FULL;
  const kind = options.quick ? "QUICK: for orientation, not for publication\n" : "";
  console.log(`${kind}${renderMachine(machine)}\n${cores.description}\n`);

  const stage = createStage();
  let stoppedBy: NodeJS.Signals | undefined;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      stoppedBy ??= signal;
      void stage.close();
    });
  }
  const say = (what: string) => console.error(what);
  let disturbed = 0;
  const bench: Bench = {
    stage,
    cores,
    scale,
    say,
    noteDisturbed: () => disturbed++,
  };
  const rows: Result[] = [];
  try {
    for (const group of options.groups) {
      if (stoppedBy !== undefined) break;
      say(`${group.name}:`);
      rows.push(...(await measure(group, bench)));
    }
  } finally {
    await stage.close();
  }
  if (stoppedBy !== undefined) {
    console.error(`Stopped by ${stoppedBy}`);
    return 130;
  }

  const wanted = rows.filter(({ name }) => options.names.has(name));
  console.log(`\n${renderTable(wanted)}`);
  if (before !== undefined && options.compare !== undefined) {
    const isAlike = before.scale?.rounds === scale.rounds && before.scale.roundMs === scale.roundMs;
    const scales = isAlike ? "" : " (with rounds of another number or length, so the noise differs)";
    console.log(renderComparison(compareRuns(before.rows, wanted), `${options.compare}${scales}`));
  }
  if (options.json !== undefined) {
    const run: Run = { machine, cores: cores.description, scale, disturbed, rows: wanted };
    writeFileSync(options.json, `${JSON.stringify(run, undefined, 2)}\n`);
  }
  if (disturbed > 0) {
    console.log(
      `DISTURBED: in ${disturbed} rounds other processes used the cores; measure again on a quiet machine`,
    );
  }
  const short = namesOfShort(wanted);
  console.log(short.length === 0 ? "No row falls short" : `Short of their target: ${short.join("; ")}`);
  return short.length === 0 ? 0 : 1;
}

/**
 * Measures the rows of a group. If the group fails, all its rows are failed rows; the other groups still
 * run.
 */
async function measure(group: RowGroup, bench: Bench): Promise<readonly Result[]> {
  try {
    return await group.run(bench);
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    bench.say(`  FAILED: ${failure}`);
    return group.rows.map((name) => ({ name, failure }));
  } finally {
    await bench.stage.clear();
  }
}

interface Options {
  readonly groups: readonly RowGroup[];
  readonly names: ReadonlySet<string>;
  readonly quick: boolean;
  readonly json: string | undefined;
  readonly compare: string | undefined;
}

function readArguments(): Options | undefined {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: "string", multiple: true },
        quick: { type: "boolean", default: false },
        json: { type: "string" },
        compare: { type: "string" },
      },
    });
    const all = GROUPS.flatMap((group) => group.rows);
    const only = values.only ?? all;
    const names = new Set(
      only.flatMap((wanted) => {
        const named =
          GROUPS.find(({ name }) => name === wanted)?.rows ?? all.filter((name) => name === wanted);
        if (named.length === 0) throw new Error(`There is no row ${wanted}`);
        return named;
      }),
    );
    const groups = GROUPS.filter((group) => group.rows.some((name) => names.has(name)));
    return { groups, names, quick: values.quick, json: values.json, compare: values.compare };
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
    return undefined;
  }
}

function readRun(file: string): Run {
  return JSON.parse(readFileSync(file, "utf8")) as Run;
}
