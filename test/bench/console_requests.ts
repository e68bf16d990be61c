/** The pages of the console that the benchmark opens, and the login for them. */
import type { Stage } from "./stage.ts";

export interface Seen {
  /** `usr_…` of the account with the most keys, and of one with few. */
  readonly largest: string;
  readonly small: string;
  /** `key_…` of some key. */
  readonly key: string;
  readonly now: Date;
}

/** Returns paths for `operators_data.sql`: every page for reading, with rare and frequent conditions. */
export function consoleRequests({ largest, small, key, now }: Seen): string[] {
  const month = now.toISOString().slice(0, 7);
  const aWhileAgo = `${new Date(now.getTime() - 7_200_000).toISOString().slice(0, 19)}Z`;
  const keys = [
    ...[
      "",
      "tier=research",
      "state=revoked",
      "mode=test",
      "tier=enterprise&mode=test",
      "tier=free&state=expired",
    ],
    ...[
      "expiring_within=90",
      "external_id=order-7000",
      `account=${largest}`,
      `account=${largest}&state=suspended`,
    ],
    ...["björn", "lea+berg", "zzzz", "e+m", "mail&tier=enterprise"].map((text) => `search=${text}`),
    ...["near_quota=80", "near_quota=90&tier=research", "near_quota=100&tier=enterprise", "unused_for=30"],
    ...[
      "unused_for=90&tier=research",
      "unused_for=365&near_quota=80",
      "refused_now=true",
      "runs_out_within=7",
      "all_places_taken=true",
      `after=${key}`,
    ],
    ...[
      "soonest_expiry",
      "latest_expiry&tier=enterprise",
      "most_used",
      "latest_used&tier=research&mode=test",
    ].map((sort) => `sort=${sort}`),
  ];
  const activity = ["endpoint", "code", "reason"].flatMap((by) =>
    ["hour", "day", "month"].map((step) => `by=${by}&step=${step}`),
  );
  const audit = [
    "",
    "action=key.suspend",
    "actor=operator:pia&action=model.retire",
    `account=${largest}`,
    `key=${key}`,
  ];
  const texts = [
    "zzzz",
    "00ff",
    "…00ff",
    "svc_live_00ff",
    "00ff…00ff",
    "anna",
    "university",
    "mail",
    "order",
  ];
  return [
    ...texts.map((text) => `search?${new URLSearchParams({ q: text })}`),
    ...["overview", "keys/issue", `keys/${key}`, "models", "health", "access"],
    ...[
      "health/latency",
      "health/latency?endpoint=analytics",
      `health/latency?endpoint=analytics&at=${aWhileAgo}`,
    ],
    ...keys.map((query) => `keys?${query}`),
    ...[
      "accounts",
      "accounts?sort=email",
      "accounts?search=university",
      `accounts/${largest}`,
      `accounts/${small}`,
    ],
    ...["usage", `usage?month=${month}`, "usage?month=2020-01"],
    ...[...activity, "by=code&to=2026-01-01T00:00:00Z"].map((query) => `activity?${query}`),
    ...[...audit, "since=2025-06-01&until=2025-06-02"].map((query) => `audit?${query}`),
  ].map((page) => `/console/${page}`);
}

/** Logs an operator in, and returns a function that reads a page of the console. */
export async function createVisitor(
  stage: Stage,
  { dataDir, origin }: { readonly dataDir: string; readonly origin: string },
): Promise<(path: string) => Promise<string>> {
  const shown = await stage.command([
    "operators",
    "login",
    "bench",
    "--role",
    "admin",
    "--data-dir",
    dataDir,
  ]);
  const code = /#([0-9a-f-]+)/i.exec(shown)?.[1] ?? "";
  const body = new URLSearchParams({ code });
  const entered = await fetch(`${origin}/console/enter`, {
    method: "POST",
    headers: { origin },
    body,
    redirect: "manual",
  });
  const [cookie = ""] = (entered.headers.get("set-cookie") ?? "").split(";");
  return async (path) => {
    const response = await fetch(`${origin}${path}`, { headers: { cookie }, redirect: "manual" });
    if (response.status !== 200) throw new Error(`${path} was answered with ${response.status}`);
    return await response.text();
  };
}
