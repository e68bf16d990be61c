/** A backup of version 0.1.0 is restored and served as that version served it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type CommandLine, createCommandLine, type RunningService } from "../../cli/command_line.ts";
import { createTestClock } from "../../support/clock.ts";
import type { OldAnswer, OldAnswers } from "./fixtures/old_answers.ts";

const PUBLIC_URL = "https://licenses.example.org";
const BACKUP = join(import.meta.dir, "fixtures/0.1.0.tar.zst");
const old: OldAnswers = JSON.parse(readFileSync(join(import.meta.dir, "fixtures/0.1.0.json"), "utf8"));

const options = { clock: createTestClock(old.made_at), env: { CLAVIGER_PUBLIC_URL: PUBLIC_URL } };
let cli: CommandLine;
let service: RunningService;
// biome-ignore lint/suspicious/noExplicitAny: a document that a command prints.
let restored: any;

async function start(): Promise<void> {
  cli = createCommandLine();
  restored = await cli.json(["restore", BACKUP], options);
  service = await cli.serve([], options);
}
async function stop(): Promise<void> {
  await service?.stop();
  cli.remove();
}

const post = async (path: string, body: object, headers = {}): Promise<OldAnswer> => {
  const response = await fetch(service.url + path, { method: "POST", body: JSON.stringify(body), headers });
  return { status: response.status, body: await response.json() };
};

async function listModels(apiKey: string): Promise<OldAnswer> {
  const response = await fetch(`${service.url}/v1/models/list`, { headers: { "X-API-Key": apiKey } });
  return { status: response.status, body: await response.json() };
}

const keyOf = (label: string) => old.keys.find((key) => key.label === label)?.api_key ?? "";

/**
 * Removes the signature and the file name from links: a signature lasts only minutes, and only newer versions add the
 * file name. Another test uses a link.
 */
function withoutSignatures({ status, body }: OldAnswer): OldAnswer {
  const text = JSON.stringify(body)
    .replaceAll(/\?key=[^"]*/g, "")
    .replaceAll(/(\/v1\/models\/download\/[^/"]+\/[^/"]+)\/[^/"]+/g, "$1");
  return { status, body: JSON.parse(text) };
}

describe("a backup of version 0.1.0", () => {
  beforeAll(start);
  afterAll(stop);

  test("has rows in every table, and all of them are restored", async () => {
    const { tables } = restored;
    expect(Object.entries(tables).filter(([, rows]) => rows === 0)).toEqual([]);
    expect(Object.keys(tables)).toHaveLength(12);
    const again = await cli.json(["backup", join(cli.folder, "again.tar.zst")], options);
    // The restore itself adds one row to the audit log.
    expect(again.tables).toMatchObject({ ...tables, audit: tables.audit + 1 });
  });

  test("gives the same lists as version 0.1.0", async () => {
    // Lists are now ordered by id: 0.1.0 ordered accounts by e-mail, and keys by the start of the command.
    const byId = <Row extends { readonly id: string }>(rows: readonly Row[]) =>
      rows.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    expect(await cli.json(["keys", "list"], options)).toMatchObject(byId(old.key_list));
    expect(await cli.json(["accounts", "list"], options)).toMatchObject(byId(old.accounts));
    expect(await cli.json(["models", "list"], options)).toMatchObject(old.models);
    const [note, ...audit] = await cli.json(["audit"], options);
    expect(note).toMatchObject({ action: "database.restore", after: { claviger: "0.1.0" } });
    // 0.1.0 showed instants in rows as PostgreSQL writes them.
    const shown = JSON.stringify(old.audit).replaceAll(/(:\d\d)(\.\d+)?\+00:00"/g, '$1Z"');
    expect(audit).toMatchObject(JSON.parse(shown));
  });

  test("gives the same usage of every month as version 0.1.0", async () => {
    expect(Object.values(old.usage).map((rows) => rows.length)).not.toContain(0);
    for (const [month, rows] of Object.entries(old.usage)) {
      // 0.1.0 ordered licenses by e-mail; now they are ordered by id.
      const byId = rows.toSorted((a, b) => (a.license_id < b.license_id ? -1 : 1));
      expect(await cli.json(["usage", "export", "--month", month], options)).toMatchObject(byId);
    }
  });

  for (const { label, api_key, answers } of old.keys) {
    test(`gives the key ${label} the same answers as version 0.1.0`, async () => {
      const { validate, refresh, repo_token, models } = answers;
      expect(await post("/v1/auth/validate", { api_key })).toMatchObject(validate ?? {});
      expect(await post("/v1/auth/refresh", { api_key })).toMatchObject(refresh ?? {});
      expect(await post("/v1/installer/repo-token", { api_key })).toMatchObject(repo_token ?? {});
      const listed = withoutSignatures(await listModels(api_key));
      expect(listed).toMatchObject(withoutSignatures(models ?? { status: 0, body: {} }));
    });
  }

  test("gives the hosted model file", async () => {
    const { body } = await listModels(keyOf("research"));
    const hosted = body.models.find(({ name }: { name: string }) => name === "hosted");
    const response = await fetch(hosted.download_url.replace(PUBLIC_URL, service.url));
    expect(response.status).toBe(200);
    expect(`sha256:${hash("sha256", await response.bytes())}`).toBe(hosted.checksum);
    expect((await cli.json(["models", "verify"], options)).files).toMatchObject([{ state: "good" }]);
  });
});

// It changes what the other tests compare, so it has an installation of its own.
describe("a backup of version 0.1.0 for one more event", () => {
  beforeAll(start);
  afterAll(stop);

  test("keeps a used Idempotency-Key, and accepts another event", async () => {
    const { key, headers, event, answer } = old.claim;
    const api_key = keyOf(key);
    const usedNow = async () => (await post("/v1/auth/refresh", { api_key })).body.quota.used;
    const used = await usedNow();
    const again = await post("/v1/analytics/log", { api_key, ...event }, headers);
    expect(again).toMatchObject({ status: answer.status, body: { event_id: answer.body.event_id } });
    expect(await usedNow()).toBe(used);
    const another = await post("/v1/analytics/log", { api_key, ...event, duration_ms: 1 }, headers);
    expect(another).toMatchObject({ status: 422, body: { code: "INVALID_REQUEST" } });
    expect(await usedNow()).toBe(used);
    expect(await post("/v1/analytics/log", { api_key, ...event })).toMatchObject({
      status: 202,
      body: { quota: { used: used + 1 } },
    });
  });
});
