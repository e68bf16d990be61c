/** Fills an installation with data of every kind that its version has, by commands and requests, in three months. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../support/until.ts";
import type { Document, Installation } from "./installation.ts";

/** What a fill gave out: only this shows it again. */
export interface Filled {
  readonly keys: ReadonlyMap<string, { readonly id: string; readonly apiKey: string }>;
  readonly tokens: readonly string[];
  /** Files of signed licenses. */
  readonly licenses: readonly string[];
  readonly models: readonly string[];
  readonly months: readonly string[];
  /** What the version lacks of it. */
  readonly lacking: readonly string[];
}

const DAY_MS = 86_400_000;
const TIERS = ["free", "research", "commercial", "enterprise"];
/** An event that is sent again and again with one `Idempotency-Key`. */
export const REPEATED = { event_type: "inference", model_name: "repeated", duration_ms: 12.5 };

/** Sends a request again while the answer is 503: on a busy machine a service can lose its database for a moment. */
export async function ask(url: string, init: RequestInit = {}): Promise<Response> {
  return await until(
    async () => {
      const answer = await fetch(url, init);
      if (answer.status !== 503) return answer;
      await Bun.sleep(500);
      return undefined;
    },
    { what: `an answer of ${url}`, limitMs: 60_000 },
  );
}

export async function post(url: string, path: string, body: object, headers = {}): Promise<Document> {
  const answer = await ask(url + path, { method: "POST", body: JSON.stringify(body), headers });
  return { status: answer.status, body: await answer.json() };
}

export function sendRepeated({ url }: Installation, { keys }: Filled): Promise<Document> {
  const headers = { "Idempotency-Key": "an-event-of-an-older-version" };
  return post(url, "/v1/analytics/log", { api_key: keys.get("enterprise")?.apiKey, ...REPEATED }, headers);
}

export async function fill(installation: Installation): Promise<Filled> {
  const { url, folder, json, run, has } = installation;
  const keys = new Map<string, { id: string; apiKey: string }>();
  const tokens: string[] = [];
  const licenses: string[] = [];
  const lacking: string[] = [];
  const months: string[] = [];
  const idOf = (label: string) => keys.get(label)?.id ?? "";
  const apiKeyOf = (label: string) => keys.get(label)?.apiKey ?? "";

  const begin = async (daysAgo: number) => {
    const at = new Date(Date.now() - daysAgo * DAY_MS);
    months.push(at.toISOString().slice(0, 7));
    await installation.start(daysAgo === 0 ? undefined : at);
  };
  /** Does something if the version has all that it needs. */
  const ifHas = async (command: string, act: () => Promise<unknown>) => {
    if (await has(command)) await act();
    else lacking.push(command);
  };
  const issue = async (label: string, options: string) => {
    const words = `keys issue --email ${label}@example.org --name Holder --organization Büro`.split(" ");
    const { id, api_key } = await json([...words, ...options.split(" ")]);
    keys.set(label, { id, apiKey: api_key });
  };
  const rotate = async (label: string, overlap: string) => {
    const { id, api_key } = await json(["keys", "rotate", idOf(label), "--overlap", overlap]);
    keys.set(`successor_of_${label}`, { id, apiKey: api_key });
  };
  const sendEvents = async (labels: readonly string[]) => {
    for (const label of labels) {
      for (const event of [
        {
          event_type: "inference",
          model_name: "motor imagery",
          inference_type: "streaming",
          duration_ms: 0.1,
        },
        { event_type: "inference", inference_type: "batch", metadata: { deep: [null, 1] } },
        { event_type: "model_load", model_name: "\\N\t\u{1f511} straße\n\\." },
        { event_type: "error", success: false, error_message: "a tab\there, a line\nthere \\" },
      ]) {
        const { status, body } = await post(url, "/v1/analytics/log", { api_key: apiKeyOf(label), ...event });
        if (status !== 202) throw new Error(`An event was refused: ${JSON.stringify(body)}`);
      }
    }
  };
  const addModel = (words: string) =>
    json(["models", "add", "--type", "SvcLDA", "--n-features", "8", "--n-classes", "4", ...words.split(" ")]);

  // Ten weeks ago: the installation is new.
  await begin(70);
  const soon = new Date(Date.now() - 50 * DAY_MS).toISOString().slice(0, 19);
  for (const tier of TIERS) {
    await issue(tier, `--tier ${tier} --expires-at never`);
    await issue(`${tier}_test`, `--tier ${tier} --mode test --expires-at 2030-01-01T00:00:00Z`);
  }
  for (const label of ["expired", "renewed"]) await issue(label, `--tier commercial --expires-at ${soon}Z`);
  for (const label of ["suspended", "resumed", "revoked", "revoked_by_client", "rotated", "rotating"])
    await issue(label, "--tier research");
  await issue("used_up", "--tier free --monthly-limit 1");
  await issue("no_allowance", "--tier free --monthly-limit 0");
  for (const label of ["upgraded", "erased"]) await issue(label, "--tier free");
  await ifHas("keys issue --external-id", () => issue("ordered", "--tier free --external-id order-1"));
  const imported = { api_key: `svc_live_${"0123456789ab".repeat(4)}`, tier: "research", used: 1234 };
  const file = join(folder, "keys.jsonl");
  writeFileSync(file, JSON.stringify({ ...imported, email: "imported@example.org" }));
  await json(["keys", "import", file]);
  const { id } = await json(["keys", "find"], `${imported.api_key}\n`);
  keys.set("imported", { id, apiKey: imported.api_key });

  for (const version of ["1.0", "1.1"]) {
    const weights = join(folder, `weights-${version}`);
    writeFileSync(
      weights,
      Buffer.from(Array.from({ length: 20_000 }, (_, i) => (i * i * version.length + i) % 251)),
    );
    const hosted = `--name hosted --version ${version} --paradigm p300 --requires-license research --file ${weights}`;
    await addModel(`${hosted} --metadata {"channels":["C3","C4"]}`);
    await addModel(
      `--name retired --version ${version} --paradigm p300 --requires-license free --file ${weights}`,
    );
  }
  const elsewhere = `--sha256 ${"0123456789abcdef".repeat(4)} --size-mb 1.5 --url https://models.example.org`;
  await addModel(
    `--name private --version 1 --paradigm erp --requires-license commercial --owner enterprise@example.org ${elsewhere}/1`,
  );
  await addModel(`--name removed --version 1 --paradigm ssvep --requires-license free ${elsewhere}/2`);
  await json(["models", "remove", "removed"]);
  await ifHas("models retire", () => json(["models", "retire", "retired", "1.1"]));
  await json(["installer", "set-token", "--expires-at", "2031-01-01T00:00:00Z"], "a-repository-token\n");
  const active = [...TIERS, "free_test"];
  await sendEvents([...active, "expired", "erased"]);
  await json(["accounts", "update", "research@example.org", "--organization", "Institute of \\Tests\\"]);
  await installation.stop();

  // Five weeks ago: commands change keys.
  await begin(35);
  await sendEvents([...active, "upgraded"]);
  await json(["keys", "suspend", idOf("suspended"), "--reason", "an invoice is open"]);
  await json(["keys", "suspend", idOf("resumed")]);
  await json(["keys", "resume", idOf("resumed"), "--reason", "paid"]);
  await json(["keys", "revoke", idOf("revoked"), "--reason", "found in a public repository"]);
  await post(url, "/v1/auth/revoke", { api_key: apiKeyOf("revoked_by_client"), reason: "lost" });
  await json(["keys", "tier", idOf("upgraded"), "commercial"]);
  await json(["keys", "limit", idOf("upgraded"), "777"]);
  await json(["keys", "renew", idOf("renewed"), "--expires-at", "2031-06-30T00:00:00Z"]);
  await rotate("rotated", "1d");
  await json(["keys", "revoke", idOf("erased")]);
  await json(["accounts", "erase", "erased@example.org", "--reason", "asked for"]);
  await ifHas("operators login", async () => {
    for (const name of ["olga", "ivan", "gone"]) await json(["operators", "login", name, "--role", "admin"]);
    await json(["operators", "role", "ivan", "viewer"]);
    await json(["operators", "remove", "gone"]);
  });
  await ifHas("tokens issue", async () => {
    const all = "keys:read,accounts:read,usage:read,models:read,audit:read,status:read";
    for (const words of [
      `reader --scope ${all}`,
      "shop --scope keys:read,keys:issue --tiers free,research --mode live",
      "revoked --scope keys:read",
    ])
      tokens.push((await json(["tokens", "issue", "--name", ...words.split(" ")])).token);
    await json(["tokens", "revoke", "revoked"]);
  });
  await ifHas("licenses export", async () => {
    for (const label of ["research", "enterprise"]) {
      licenses.push(await run(["licenses", "export", idOf(label), "--days", "365"]));
      // The second license has another signing key.
      await json(["licenses", "rotate-signing-key"]);
    }
  });
  await installation.stop();

  // Now.
  await begin(0);
  await rotate("rotating", "7d");
  await sendEvents([...active, "rotating", "successor_of_rotating"]);
  await post(url, "/v1/analytics/log", { api_key: apiKeyOf("used_up"), event_type: "inference" });
  const filled: Filled = {
    keys,
    tokens,
    licenses,
    months,
    lacking,
    models: ["hosted", "retired", "private", "removed"],
  };
  await sendRepeated(installation, filled);
  return filled;
}
