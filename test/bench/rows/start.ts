/**
 * Measures how long the executable takes from its start to the first 200 of health: on an empty folder, and
 * later.
 */
import { toRow } from "../row.ts";
import type { RowGroup } from "../row_group.ts";

const TARGETS_S = { first: 2.5, later: 0.8 };

export const start: RowGroup = {
  name: "start",
  rows: ["start, empty folder", "start, later"],
  async run({ stage, scale, say }) {
    const rounds = { first: [] as number[], later: [] as number[] };
    for (let round = 0; round < scale.rounds; round++) {
      const dataDir = stage.newFolder();
      for (const kind of ["first", "later"] as const) {
        // The start may use every core, since nothing else is measured with it.
        const service = await stage.serve(dataDir, { cores: undefined });
        rounds[kind].push(service.readyMs / 1_000);
        say(`  round ${round + 1}  ${kind} start ${service.readyMs.toFixed(0)} ms`);
        await service.stop();
      }
    }
    const row = (name: string, kind: "first" | "later", note: string) =>
      toRow({
        name,
        unit: "s",
        better: "less",
        rounds: rounds[kind],
        target: { bound: "at most", value: TARGETS_S[kind] },
        note,
        details: {},
      });
    return [
      row(
        "start, empty folder",
        "first",
        "from nothing to the first 200: PostgreSQL unpacked, initialised, migrated",
      ),
      row("start, later", "later", "on a folder with data, to the first 200"),
    ];
  },
};
