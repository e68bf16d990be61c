/** Measures one kind of request alone: how many a second, and what each costs in CPU time. */
import type { RequestKind } from "./load_job.ts";
import { coresText, costUs, detailsOf, partUs, perSecond } from "./measures.ts";
import { toRow } from "./row.ts";
import { type Bench, inTurn, type RowGroup } from "./row_group.ts";
import type { Environment } from "./stage.ts";
import { median } from "./statistics.ts";

interface OneRequest {
  /** The names of the group and of its row. */
  readonly group: string;
  readonly name: string;
  readonly request: RequestKind;
  readonly keys: number;
  readonly connections?: number;
  /** The number and kind of things, for the note. */
  readonly what: string;
  /** The unit of the CPU time in the note, by default µs. */
  readonly unit?: "µs" | "ms";
  readonly env?: Environment;
  /** Prepares the data of the running service. */
  readonly prepare?: (bench: Bench, dataDir: string) => Promise<void>;
}

export function oneRequest({ group, name, request, what, ...options }: OneRequest): RowGroup {
  const { keys, connections, unit = "µs", env, prepare } = options;
  return {
    name: group,
    rows: [name],
    async run(bench) {
      const { stage, cores, scale } = bench;
      const dataDir = await stage.createData(keys);
      const service = await stage.serve(dataDir, { cores: cores.service, ...(env && { env }) });
      await prepare?.(bench, dataDir);
      const load = stage.load(cores);
      const run = (warmUpMs: number) =>
        load.run(service, {
          ...{ request, keys, warmUpMs, ...(connections && { connections }) },
          span: { kind: "time", ms: scale.roundMs },
        });
      await run(scale.firstWarmUpMs);
      const { [name]: results = [] } = await inTurn(bench, { [name]: () => run(scale.warmUpMs) });
      await service.stop();
      const text = (figures: readonly number[]) =>
        unit === "ms" ? (median(figures) / 1_000).toFixed(1) : median(figures).toFixed(0);
      return [
        toRow({
          name,
          unit: "/s",
          better: "more",
          rounds: perSecond(results),
          note:
            `${what}; ${text(costUs(results))} ${unit} of CPU for each: ` +
            `${text(partUs(results, "serviceCpu"))} in the service, ${text(partUs(results, "databaseCpu"))} in PostgreSQL; ` +
            coresText(results),
          details: detailsOf(group, results),
        }),
      ];
    },
  };
}
