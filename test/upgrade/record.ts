/** Records what an installation shows through the doors of the product, and compares two such records. */
import { hash } from "node:crypto";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ask, type Filled, post, sendRepeated } from "./fill.ts";
import { type Document, type Installation, PUBLIC_URL } from "./installation.ts";

/** What a command or a request said, by its name. */
export type Record = Map<string, Document>;

/** Runs every command and asks every list of the API for operators that the version has. They change nothing. */
export async function recordLists(installation: Installation, filled: Filled): Promise<Record> {
  const { json, has, folder, url, adminUrl } = installation;
  const record = new Map<string, Document>();
  const add = async (command: string, ...rest: string[]) => {
    if (await has(command))
      record.set([command, ...rest].join(" "), await json([...command.split(" "), ...rest]));
  };
  for (const list of [
    "keys list",
    "accounts list",
    "models list",
    "models verify",
    "operators list",
    "tokens list",
  ])
    await add(list);
  // The requests below use the tokens.
  const tokens: Document[] = record.get("tokens list") ?? [];
  for (const token of tokens) delete token.last_used_at;
  for (const label of ["enterprise", "imported"]) await add("keys usage", filled.keys.get(label)?.id ?? "");
  for (const month of filled.months) await add("usage export", "--month", month);
  for (const model of filled.models) await add("models show", model);
  await add("accounts usage", "enterprise@example.org");
  await add("licenses public-keys");
  await add("licenses outstanding");
  for (const [index, license] of filled.licenses.entries()) {
    const name = `license-${index}`;
    writeFileSync(join(folder, name), license);
    chmodSync(join(folder, name), 0o644);
    await add("licenses verify", name);
  }
  await add("audit", "--limit", "1000");
  const { settings }: Document = await json(["config", "check"]);
  const set = settings.filter(({ source }: Document) => source !== "default");
  record.set("settings", Object.fromEntries(set.map(({ name, ...rest }: Document) => [name, rest])));
  for (const [index, token] of filled.tokens.entries()) {
    // 0.2.0 listed all keys for a token that is restricted to some tiers.
    const lists = index === 0 ? ["/keys?limit=100", "/accounts?limit=100", "/models"] : [];
    for (const path of ["/whoami", ...lists]) {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await ask(`${adminUrl}/admin/v1${path}`, { headers });
      record.set(`token ${index} ${path}`, { status: answer.status, body: await answer.json() });
    }
  }
  if (filled.licenses.length > 0)
    record.set("jwks", await (await ask(`${url}/.well-known/jwks.json`)).json());
  return record;
}

/** Asks all that clients ask. It changes the last use of keys. */
export async function recordAnswers(installation: Installation, filled: Filled): Promise<Record> {
  const { url } = installation;
  const record = new Map<string, Document>();
  record.set("a repeated event", await sendRepeated(installation, filled));
  for (const [label, { apiKey }] of filled.keys) {
    const send = async (path: string) =>
      record.set(`${label} ${path}`, await post(url, path, { api_key: apiKey }));
    for (const path of ["/v1/auth/validate", "/v1/auth/refresh", "/v1/installer/repo-token"])
      await send(path);
    const answer = await ask(`${url}/v1/models/list`, { headers: { "X-API-Key": apiKey } });
    const body: Document = await answer.json();
    record.set(`${label} models`, { status: answer.status, body });
    for (const { name, version, download_url } of body.models ?? []) {
      if (!download_url.startsWith(PUBLIC_URL)) continue;
      const file = await ask(download_url.replace(PUBLIC_URL, url));
      record.set(
        `${label} file of ${name} ${version}`,
        `${file.status} ${hash("sha256", await file.bytes())}`,
      );
    }
  }
  return record;
}

/**
 * Returns each value of `before` that `after` lacks or has otherwise. `after` may have more fields, because later
 * versions add them, and more rows of the audit log, whose newest row comes first. Rows with an id may have another
 * order. An erasure may have been completed in the meantime.
 */
export function compareRecords(before: Record, after: Record): string[] {
  return [...before].flatMap(([name, value]) => {
    const [old, now] = [value, after.get(name)].map(toComparable);
    const rows = name.startsWith("audit") && Array.isArray(now) ? now.slice(now.length - old.length) : now;
    return differences(name, old, rows);
  });
}

function differences(path: string, before: Document, after: Document): string[] {
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length)
    return before.flatMap((value, index) => differences(`${path}[${index}]`, value, after[index]));
  if (isRecord(before) && isRecord(after))
    return Object.entries(before).flatMap(([name, value]) =>
      differences(`${path}.${name}`, value, after[name]),
    );
  const hasEnded = path.endsWith(".events_erased_at") && before === null && typeof after === "string";
  return hasEnded || Bun.deepEquals(before, after)
    ? []
    : [`${path}: ${JSON.stringify(before)} → ${JSON.stringify(after)}`];
}

const isRecord = (value: Document) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Removes what differs between versions or moments by intention, and sorts rows by their id. */
function toComparable(value: Document): Document {
  if (Array.isArray(value)) {
    const rows = value.map(toComparable);
    const idOf = (row: Document): string | undefined => row?.id ?? row?.license_id;
    // The audit log has its own order, which counts.
    return rows.every((row) => idOf(row) !== undefined && row.action === undefined)
      ? rows.toSorted((a, b) => (idOf(a) ?? "").localeCompare(idOf(b) ?? ""))
      : rows;
  }
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, toComparable(inner)]));
  if (typeof value !== "string") return value;
  return (
    value
      // A signature lasts only minutes, and 0.1.0 added no file name.
      .replace(/(\/v1\/models\/download\/[^/"]+\/[^/"?]+)[^"]*/, "$1")
      // 0.1.0 showed instants in rows of the audit log as PostgreSQL writes them.
      .replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?\+00:00$/, "$1Z")
  );
}
