/**
 * Measures validate with and without 100 programs that wait for rows of the audit log at the same process: they must cost
 * the clients nothing.
 */
import { until } from "../../support/until.ts";
import { moveTo } from "../cores.ts";
import type { LoadResult } from "../load_job.ts";
import { costUs, detailsOf, perSecond, rateText } from "../measures.ts";
import { type OperatorsApi, openOperatorsApi } from "../operators_api.ts";
import { toRow } from "../row.ts";
import { inTurn, type RowGroup } from "../row_group.ts";
import { type Server, WITH_METRICS } from "../stage.ts";
import { median, ratios } from "../statistics.ts";

const NAME = "validate beside 100 followers";
const KEYS = 20_000;
const FOLLOWERS = 100;
const TOKENS = 10;
/** Changes that nobody makes here, so that nobody is woken. A tenth of the followers asks for each. */
const ACTIONS = [
  ...["notice.make", "notice.withdraw", "notice.done", "notice.remind", "notice.mute", "notice.unmute"],
  ...["key.revoke", "key.suspend", "key.resume", "key.rotate"],
];

export const followers: RowGroup = {
  name: "followers",
  rows: [NAME],
  async run(bench) {
    const { stage, cores, scale } = bench;
    const dataDir = await stage.createData(KEYS);
    const env = { ...WITH_METRICS, CLAVIGER_ADMIN_LISTEN: "127.0.0.1:0" };
    const service = await stage.serve(dataDir, { cores: cores.service, env });
    const api = await openOperatorsApi(stage, { dataDir, tokens: TOKENS, scopes: "audit:read" });
    const load = stage.load(cores);
    const validate = (warmUpMs = scale.warmUpMs) => {
      const span = { kind: "time", ms: scale.roundMs } as const;
      return load.run(service, { request: "validate", keys: KEYS, warmUpMs, span });
    };
    // This process follows, so it must not take time from the service.
    await moveTo(cores.load, [process.pid]);
    await validate(scale.firstWarmUpMs);
    const { alone, beside } = await inTurn(bench, {
      alone: () => validate(),
      beside: () => whileFollowed(api, service, () => validate()),
    });
    await moveTo(cores.both, [process.pid]);
    await service.stop();
    return [
      toRow({
        name: NAME,
        unit: "×",
        better: "more",
        rounds: ratios(perSecond(beside), perSecond(alone)),
        target: { bound: "at least", value: 0.95 },
        note:
          `${rateText(beside)} beside ${FOLLOWERS} programs that wait for rows of the audit log, against ` +
          `${rateText(alone)} without them; ${median(costUs(beside)).toFixed(1)} µs of CPU a request against ` +
          `${median(costUs(alone)).toFixed(1)}`,
        details: { ...detailsOf("beside", beside), ...detailsOf("alone", alone) },
      }),
    ];
  },
};

/** Measures while the programs wait; throws if one of them does not. */
async function whileFollowed(
  { origin, headers }: OperatorsApi,
  service: Server,
  measure: () => Promise<LoadResult>,
): Promise<LoadResult> {
  const ends = new AbortController();
  const countWaiting = async () => (await service.counters()).get("claviger_audit_followers_waiting{}");
  const follow = async (index: number) => {
    const action = ACTIONS[index % ACTIONS.length];
    const url = `${origin}/admin/v1/audit?action=${action}`;
    const init = { headers: headers[index % TOKENS] ?? {}, signal: ends.signal };
    const { next } = (await (await fetch(url, init)).json()) as { next: string };
    await fetch(`${url}&wait=20&after=${next}`, init);
  };
  const following = Array.from({ length: FOLLOWERS }, (_, index) => follow(index).catch(() => {}));
  try {
    await until(async () => (await countWaiting()) === FOLLOWERS, { what: `${FOLLOWERS} programs wait` });
    const result = await measure();
    const left = await countWaiting();
    if (left !== FOLLOWERS) throw new Error(`Only ${left} programs waited until the end`);
    return result;
  } finally {
    ends.abort();
    await Promise.all(following);
    await until(async () => (await countWaiting()) === 0, { what: "no program waits" });
  }
}
