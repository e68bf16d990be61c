/** The requests that the benchmark sends to the lists of operators: every filter, and rare, empty and deep pages. */
import { renderCursor } from "../../src/admin/frame/api/cursor.ts";
import { TIERS } from "../../src/licensing/mod.ts";
import { consoleRequests, type Seen } from "./console_requests.ts";

/** Paths below `/admin/v1`, by list, and paths of the console. */
export type ListRequests = Readonly<
  Record<"keys" | "search" | "accounts" | "usage" | "audit" | "statistics" | "console", string[]>
>;

const DAY_MS = 86_400_000;
const NONE = [undefined];

/** Returns the requests for `operators_data.sql`. */
export function listRequests(seen: Seen): ListRequests {
  const { largest, small, key, now } = seen;
  const ago = (days: number) => new Date(now.getTime() - days * DAY_MS);
  /** A position as if the page before had ended at that time. */
  const positionAt = (at: Date) => {
    const digits = at.getTime().toString(16).padStart(12, "0");
    return `${digits.slice(0, 8)}-${digits.slice(8)}-7000-8000-000000000000`;
  };
  const page = (
    name: string,
    filters: Readonly<Record<string, string | number | undefined>>,
    days?: number,
  ) => {
    const query = new URLSearchParams();
    for (const [field, value] of Object.entries(filters))
      if (value !== undefined) query.set(field, `${value}`);
    if (days !== undefined)
      query.set("after", renderCursor({ name, filters }, { at: now, position: positionAt(ago(days)) }));
    return `/${name}?${query}`;
  };

  const dayOf = (at: Date) => at.toISOString().slice(0, 10);

  const keys: string[] = [];
  for (const tier of [undefined, ...TIERS])
    for (const state of [undefined, "active", "suspended", "revoked", "expired"])
      for (const mode of [undefined, "live", "test"])
        for (const expiring_within of [undefined, 7, 400]) {
          const filters = { tier, state, mode, expiring_within };
          keys.push(page("keys", filters), page("keys", filters, 550), page("keys", filters, 20));
        }
  for (const account of [largest, small])
    for (const tier of [undefined, "commercial", "enterprise"])
      for (const state of [undefined, "suspended"]) keys.push(page("keys", { account, tier, state }));
  for (const feature of ["custom_models", "streaming", "on_premise", "rare_one", "unknown"])
    for (const tier of [undefined, "free", "enterprise"])
      for (const sort of [undefined, "newest", "soonest_expiry"])
        for (const state of [undefined, "suspended"]) {
          const filters = { feature, tier, sort, state };
          keys.push(page("keys", filters), ...(sort === undefined ? [page("keys", filters, 550)] : []));
        }
  for (const external_id of ["order-7000", "order-700000", "unknown"])
    keys.push(page("keys", { external_id }));

  const texts = [
    "björn",
    "lea berg",
    "Anna Linlaberg",
    "anna hospital",
    "clinic of camhaven",
    "zzzz",
    ...["00ff", "…00ff", "svc_live_00ff", "00ff…00ff", "svc_test_zzzz", key, "order-7000", "order-none"],
  ];
  // A text that too many accounts match is refused, which also takes a search.
  texts.push("a", "m", "e m", "mail", "example", "university", "mail example", "anna mail");
  const search = texts.flatMap((text) => [
    page("accounts", { search: text }),
    page("keys", { search: text }),
    page("keys", { search: text, tier: "enterprise", mode: "test" }),
    page("keys", { search: text, state: "revoked" }),
  ]);

  const accounts = [undefined, 1_000, 700, 365, 100, 7, 0].map((days) => page("accounts", {}, days));
  const months = Array.from({ length: 14 }, (_, back) => {
    const month = new Date(now);
    month.setUTCDate(1);
    month.setUTCMonth(month.getUTCMonth() - back);
    return month.toISOString().slice(0, 7);
  });
  const usage = [...months, "2020-01"].map((month) => `/usage?month=${month}`);

  const audit: string[] = [];
  const log = (filters: Readonly<Record<string, string | undefined>>) => audit.push(page("audit", filters));
  const times = [
    {},
    { since: ago(1) },
    { since: ago(500) },
    { since: ago(500), until: ago(499) },
    { until: ago(2_000) },
  ].map(({ since, until }: { since?: Date; until?: Date }) => ({
    since: since?.toISOString(),
    until: until?.toISOString(),
  }));
  for (const time of times) {
    for (const actor of [...NONE, "token:shop", "operator:pia", "http:192.0.2.7", "token:unknown"])
      for (const action of [...NONE, "key.issue", "key.suspend", "account.erase"])
        log({ actor, action, ...time });
    for (const account of [largest, small]) {
      log({ account, ...time });
      log({ account, action: "key.suspend", ...time });
    }
    log({ key, ...time });
  }

  const statistics = [
    "/figures",
    "/usage/daily",
    "/usage/daily?by=tier",
    `/usage/daily?from=${dayOf(ago(399))}&by=tier`,
  ];
  const figures = [
    ...[80, 90, 100].map((near_quota) => ({ near_quota })),
    ...[30, 90, 180, 365].map((unused_for) => ({ unused_for })),
    { near_quota: 80, unused_for: 365 },
    ...[{ refused_now: "true" }, { runs_out_within: 31 }, { refused_now: "true", near_quota: 80 }],
  ];
  for (const figure of figures)
    for (const tier of [undefined, ...TIERS])
      for (const filters of [
        { ...figure, tier },
        { ...figure, tier, state: "suspended" },
        { ...figure, tier, state: "expired", mode: "test" },
        { ...figure, tier, expiring_within: 7 },
      ])
        statistics.push(page("keys", filters), page("keys", filters, 550), page("keys", filters, 20));
  for (const figure of figures)
    for (const account of [largest, small]) statistics.push(page("keys", { ...figure, account }));
  return { keys, search, accounts, usage, audit, statistics, console: consoleRequests(seen) };
}
