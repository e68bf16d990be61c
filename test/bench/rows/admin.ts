/**
 * Measures the lists of operators with many keys, over HTTP: every filter and combination, also rare and empty ones and
 * deep pages. Validate is measured with and without lists at the same time: the lists of operators must not delay
 * clients.
 */
import { BESIDE_LISTS, measureBesideLists } from "../beside_lists.ts";
import { createVisitor } from "../console_requests.ts";
import { type ListRequests, listRequests } from "../list_requests.ts";
import { openOperatorsApi } from "../operators_api.ts";
import { type Row, toRow } from "../row.ts";
import type { RowGroup } from "../row_group.ts";
import type { Stage } from "../stage.ts";
import { quantile } from "../statistics.ts";
import { toCount, toText } from "../table.ts";

const LISTS = ["keys", "search", "accounts", "usage", "audit", "statistics", "console"] as const;
const targetOf = (list: keyof ListRequests) => ({
  bound: "at most" as const,
  value: list === "statistics" ? 200 : 100,
});
const nameOf = (list: keyof ListRequests) => `lists, ${list}, p95`;
const TOKENS = 16;

export const admin: RowGroup = {
  name: "admin",
  rows: [...LISTS.map(nameOf), BESIDE_LISTS],
  async run(bench) {
    const { stage, cores, scale, say } = bench;
    const rounds = Math.ceil(scale.rounds / 3);
    say(`  loading ${toCount(scale.manyKeys)} keys`);
    const dataDir = await stage.createOperatorsData(scale.manyKeys);
    const env = { CLAVIGER_ADMIN_LISTEN: "127.0.0.1:0" };
    const service = await stage.serve(dataDir, { cores: cores.service, env });
    const get = await createReader(stage, dataDir);
    const requests = await findRequests(get);

    const perRound: Record<keyof ListRequests, number[][]> = {
      keys: [],
      search: [],
      accounts: [],
      usage: [],
      audit: [],
      statistics: [],
      console: [],
    };
    // One round more than is counted: the first one reads everything from the disk.
    for (let round = 0; round <= rounds; round++) {
      for (const list of LISTS) {
        const waits: number[] = [];
        for (const path of requests[list]) {
          const beganMs = performance.now();
          await get(path);
          const ms = performance.now() - beganMs;
          waits.push(ms);
          if (ms > targetOf(list).value) say(`    ${ms.toFixed(0)} ms  ${path.slice(0, 150)}`);
        }
        const sorted = waits.toSorted((a, b) => a - b);
        if (round > 0) perRound[list].push(sorted);
        say(`  round ${round}  ${list.padEnd(9)} ${textOf(sorted)}`);
      }
    }
    const beside = await measureBesideLists(bench, {
      service,
      get,
      paths: Object.values({ ...requests, console: [] }).flat(),
    });
    await service.stop();
    const lists = LISTS.map((list) => toListRow(list, perRound[list]));
    return [...lists, beside];
  },
};

type Reader = (path: string) => Promise<unknown>;

/** Issues tokens, and returns a function that reads a path of the API with them in turn. */
async function createReader(stage: Stage, dataDir: string): Promise<Reader> {
  const scopes = "keys:read,accounts:read,usage:read,audit:read";
  const { origin, headers } = await openOperatorsApi(stage, { dataDir, tokens: TOKENS, scopes });
  const visit = await createVisitor(stage, { dataDir, origin });
  let sent = 0;
  return async (path) => {
    if (path.startsWith("/console/")) return await visit(path);
    const response = await fetch(`${origin}/admin/v1${path}`, { headers: headers[sent++ % TOKENS] ?? {} });
    const body = await response.json();
    // A search that too many accounts match is refused.
    if (response.status !== 200 && !(response.status === 400 && path.includes("search="))) {
      throw new Error(`${path} was answered with ${response.status}: ${JSON.stringify(body).slice(0, 300)}`);
    }
    return body;
  };
}

async function findRequests(get: Reader): Promise<ListRequests> {
  const { data } = (await get("/keys?limit=100")) as { data: { id: string; user_id: string }[] };
  // The first account has the most keys.
  const [first] = data;
  const other = data.find(({ user_id }) => user_id !== first?.user_id);
  if (first === undefined || other === undefined) throw new Error("The data set has no two accounts");
  return listRequests({ largest: first.user_id, small: other.user_id, key: other.id, now: new Date() });
}

function textOf(sorted: readonly number[]): string {
  const [p50, p95, most] = [0.5, 0.95, 1].map((share) => toText(quantile(sorted, share), "ms"));
  return `p50 ${p50}, p95 ${p95}, at most ${most}`;
}

/** The details of a list's row, by their names. */
export type ListDetail = "requests a round" | "p50 ms" | "p95 ms" | "most ms";

function toListRow(list: keyof ListRequests, rounds: readonly (readonly number[])[]): Row {
  const all = rounds.flat().toSorted((a, b) => a - b);
  const details: Record<ListDetail, number> = {
    "requests a round": all.length / rounds.length,
    "p50 ms": quantile(all, 0.5),
    "p95 ms": quantile(all, 0.95),
    "most ms": quantile(all, 1),
  };
  return toRow({
    name: nameOf(list),
    unit: "ms",
    better: "less",
    rounds: rounds.map((sorted) => quantile(sorted, 0.95)),
    target: targetOf(list),
    note: `${toCount(details["requests a round"])} requests a round, one after the other: ${textOf(all)}`,
    details,
  });
}
