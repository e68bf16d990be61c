/**
 * A change leaves the same rows whether a command or the API makes it, and both answer the same. Only identifiers, times, the key's text, and who
 * made the change through which door may differ. Afterwards no API key is in a table, in the log or in a backup.
 */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { withDatabase } from "../../src/cli/run.ts";
import type { Database } from "../../src/database/mod.ts";
import { SCOPES } from "../../src/operators/mod.ts";
import { createTestInvocation, type RunningService } from "../cli/command_line.ts";
import { postJson, useCommandLine } from "../cli/use_command_line.ts";
import { dumpText } from "../support/dump.ts";
import { CHANGES, type Change, type Subject } from "./both_doors.ts";
import { newIdempotencyKey } from "./sample_requests.ts";

// Some seventy commands run, each with a database of its own.
setDefaultTimeout(90_000);

const line = useCommandLine({ prepared: true });
let service: RunningService;
let url: string;
let token: string;
/** The text of every key that was shown. */
const shown: string[] = [];

beforeAll(async () => {
  service = await line.serve(["--admin-listen", "127.0.0.1:0"]);
  const { admin } = JSON.parse(readFileSync(join(line.dataDir, "serving"), "utf8"));
  url = `http://127.0.0.1:${admin.port}/admin/v1`;
  ({ token } = await line.json(["tokens", "issue", "--name", "shop", "--scope", SCOPES.join(",")]));
});

function inDatabase<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
  const { invocation } = createTestInvocation(line.folder, {});
  const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
  return new Promise((resolve, reject) => {
    withDatabase(invocation, place, async ({ database }) => resolve(await work(database))).catch(reject);
  });
}

async function ask([method, path, body]: readonly [string, string, object]) {
  const answer = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, ...newIdempotencyKey() },
    body: JSON.stringify(body),
  });
  // The answer with a bundle is a file.
  const isFile = answer.headers.get("content-type") === "application/x-tar";
  const json = (isFile ? { bytes: await answer.bytes() } : await answer.json()) as Record<string, string>;
  if (!answer.ok) throw new Error(JSON.stringify(json));
  return json;
}

async function activate(subject: Subject, { activates = 0 }: Change): Promise<void> {
  if (activates > 0) subject.machines = [];
  for (let n = 0; n < activates; n++) {
    const fields = { api_key: subject.api_key, fingerprint: `workstation-${n}` };
    const { status, body } = await postJson(`${service.url}/v1/machines/activate`, fields);
    if (status !== 200) throw new Error(JSON.stringify(body));
    subject.machines.push(body.machine_id);
  }
}

function follow(subject: Subject, { isNew }: Change, answer: Record<string, string>): void {
  if (answer.machine_id) subject.machines = [answer.machine_id];
  if (!isNew) return;
  subject.api_key = answer.api_key ?? "";
  shown.push(answer.api_key ?? "");
  if (subject.id !== "") subject.older.push(subject.id);
  subject.id = answer.id ?? "";
  subject.user_id = answer.user_id ?? subject.user_id;
}

/** Columns that may differ: numbers of transactions, parts of the key, and who made the change through which door. */
const OWN = new Set([
  "changed_xid",
  "xid",
  "hash",
  "hint",
  "actor",
  "door",
  "request",
  "address",
  "exported_by",
  "fingerprint",
]);

/** Returns the rows of an account in every table, without the columns and values that may differ. */
async function rowsOf({ email, door, user_id }: Subject): Promise<string[]> {
  const rows = await inDatabase((database) =>
    database.query<{ kind: string; row: Record<string, unknown> }>(
      (sql) => sql`
        with account as (select * from accounts where id = ${user_id.slice(4)}::uuid),
             license as (select * from licenses where account_id in (select id from account)),
             key as (select * from keys where license_id in (select id from license)),
             model as (select * from models where owner_account_id in (select id from account)),
             version as (select * from model_versions where model_id in (select id from model)),
             entry as (select * from audit where account_id in (select id from account)),
             machine as (select * from machines where license_id in (select id from license)),
             exported as (select * from exported_licenses where key_id in (select id from key))
        select 'account' as kind, to_jsonb(account) as row, '' as place from account
        union all select 'license', to_jsonb(license), id::text from license
        union all select 'key', to_jsonb(key), id::text from key
        union all select 'model', to_jsonb(model), id::text from model
        union all select 'version', to_jsonb(version), id::text from version
        union all select 'machine', to_jsonb(machine), id::text from machine
        union all select 'exported', to_jsonb(exported), jti::text from exported
        union all select 'audit', to_jsonb(entry) - 'id' - 'unique_id', lpad(id::text, 20, '0') from entry
        order by kind, place`,
    ),
  );
  const ids = new Map<string, string>();
  return rows.map(({ kind, row }) => {
    const kept = Object.entries(row).filter(([name]) => !OWN.has(name));
    return `${kind} ${withoutDoor(JSON.stringify(Object.fromEntries(kept)), { email, door }, ids)}`;
  });
}

/** Returns the answer of a door without what may differ. Whether anything changed, only the API says. */
function answerOf({ changed, ...answer }: Record<string, unknown>, subject: Subject): string {
  return withoutDoor(JSON.stringify(answer), subject, new Map());
}

/** Replaces the names of the door, and the ids and times of its changes. `ids` has the ids that were seen before. */
function withoutDoor(
  text: string,
  { email, door }: Pick<Subject, "email" | "door">,
  ids: Map<string, string>,
): string {
  return text
    .replaceAll(email, "EMAIL")
    .replaceAll(`of-${door}`, "MODEL")
    .replaceAll(/[0-9a-f]{8}-?[0-9a-f]{4}-?7[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}/g, (id) => {
      const uuid = id.replaceAll("-", "");
      if (!ids.has(uuid)) ids.set(uuid, `id ${ids.size}`);
      return ids.get(uuid) ?? "";
    })
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)/g, toHours);
}

/** The doors make a change at different seconds, so a time within 400 days is compared in hours from now. */
function toHours(time: string): string {
  const hours = Math.round((new Date(time).getTime() - Date.now()) / 3_600_000);
  return Math.abs(hours) > 24 * 400 ? time : `in ${hours} h`;
}

describe("a change by command and by the API", () => {
  const subjectOf = (door: string): Subject => ({
    email: `${door}@example.org`,
    door,
    id: "",
    api_key: "",
    machines: [],
    license_id: "",
    user_id: "",
    older: [],
  });
  const [byCommand, byApi] = [subjectOf("command"), subjectOf("api")];

  test("leaves the same rows, and no API key in a table, in the log or in a backup", async () => {
    for (const [name, change] of CHANGES) {
      for (const subject of [byCommand, byApi]) await activate(subject, change);
      const words = change.command(byCommand);
      const printed = await line.json(words);
      follow(byCommand, change, printed);
      const answer = await ask(change.request(byApi));
      // A command that changes a license or shows a new key prints other things than the API.
      if (["accounts", "models"].includes(words[0] ?? ""))
        expect([name, answerOf(answer, byApi)]).toEqual([name, answerOf(printed, byCommand)]);
      follow(byApi, change, answer);
      byApi.license_id = answer.license_id ?? byApi.license_id;
      const rows = await rowsOf(byApi);
      expect([name, rows]).toEqual([name, await rowsOf(byCommand)]);
      expect(rows.length).toBeGreaterThanOrEqual(4);
    }
    const [apiKey = ""] = shown;
    // Send the key in each text of a request that could be stored: the body, the reason, the path and the query.
    await ask(["POST", "/keys/find", { api_key: apiKey }]);
    const { id, api_key: another = "" } = await ask([
      "POST",
      "/keys",
      { email: "ada@example.org", tier: "free" },
    ]);
    await ask(["POST", `/keys/${id}/suspend`, { reason: `found ${apiKey} in a log` }]);
    shown.push(another);
    for (const path of [`/keys/${apiKey}`, `/keys?search=${apiKey}`, `/${apiKey}`]) {
      await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
    }
    const tables = await inDatabase(dumpText);
    const file = join(line.folder, "backup.tar.zst");
    await line.json(["backup", file]);
    const { out, err } = await service.stop();
    const backup = zstdDecompressSync(readFileSync(file)).toString("latin1");
    expect(tables).toContain("idempotent_answers");
    expect(tables).toContain("found [key] in a log");
    expect(backup).toContain("found [key] in a log");
    expect(backup).not.toContain("idempotent_answers");
    expect(shown).toHaveLength(13);
    for (const text of [tables, backup, out + err].map((each) => each.toLowerCase())) {
      for (const digits of shown.map((key) => key.slice(-48))) expect(text.includes(digits)).toBe(false);
    }
  });
});
