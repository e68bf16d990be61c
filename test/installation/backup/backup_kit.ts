/** Helpers of the tests of backup and restore: fill every table of a database, back up, restore, and compare. */
import { randomBytes } from "node:crypto";
import { systemClock } from "../../../src/base/clock.ts";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import type { Refusal } from "../../../src/base/refusal.ts";
import { type Database, type DatabaseAddress, migrations } from "../../../src/database/mod.ts";
import {
  type Backup,
  type BackupOptions,
  type ProvenBackup,
  type Restored,
  type RestoreOptions,
  restoreBackup,
  verifyBackup,
  writeBackup,
} from "../../../src/installation/backup/mod.ts";
import { proveSecret } from "../../../src/installation/mod.ts";
import type { IssuedKey } from "../../../src/licensing/keys/mod.ts";
import { ensureSigningKeys } from "../../../src/licensing/signed_licenses/mod.ts";
import { setInstallerToken } from "../../../src/models/repository_token/mod.ts";
import { addActivity } from "../../../src/usage/activity/mod.ts";
import { ACTOR, issue, NOW, orThrow } from "../../support/issue.ts";
import { openSecrets } from "../../support/secrets.ts";

export const watch = { onProgress() {} };

export interface TestBackupOptions extends Partial<BackupOptions> {
  /** The time of the backup. */
  readonly now?: Date;
}

export function tryBackup(
  address: DatabaseAddress,
  path: string,
  { now = NOW, ...options }: TestBackupOptions = {},
): Promise<Backup | Refusal> {
  return writeBackup(address, {
    path,
    replace: false,
    lock: bunPlatform.lockOpenFile,
    migrations,
    version: "0.1.0",
    brand: "svc",
    clock: { now: () => now },
    watch,
    ...options,
  });
}

/** Takes a backup; throws if it is refused. */
export async function backUp(
  address: DatabaseAddress,
  path: string,
  options: TestBackupOptions = {},
): Promise<Backup> {
  return orThrow(await tryBackup(address, path, options));
}

export async function prove(path: string): Promise<ProvenBackup> {
  return orThrow(await verifyBackup(path, watch));
}

export function tryRestore(
  address: DatabaseAddress,
  proven: ProvenBackup,
  options: Partial<RestoreOptions> = {},
): Promise<Restored | Refusal> {
  return restoreBackup(address, {
    proven,
    migrations,
    withoutSealed: false,
    models: { dataDir: "/nonexistent" },
    place: "the test",
    isExternal: false,
    actor: ACTOR,
    clock: systemClock,
    watch,
    beforeCommit() {},
    ...options,
  });
}

/** Restores a file; throws if it is refused. */
export async function restore(
  address: DatabaseAddress,
  path: string,
  options: Partial<RestoreOptions> = {},
): Promise<void> {
  orThrow(await tryRestore(address, await prove(path), options));
}

/** Texts that `copy` must escape, that look like its escapes, or that sort differently by language. */
const ODD_TEXTS = [
  "",
  "\\N",
  "\\.",
  "\\",
  "a\tb\nc\rd\u000be\bf\fg",
  "\n\\.\n",
  "{\"quotes\": 'all of them'}",
  "émigré ÅNGSTRÖM straße İıſ",
  "\u{1f511} \u202eright to left\u202c \ufeff",
  "\u0001\u001b[31m\u007f",
  "x".repeat(100_000),
];

/** Puts rows into every table, and odd texts into every text column. */
export async function fill(database: Database): Promise<void> {
  const secrets = openSecrets();
  const wrong = await proveSecret(database, secrets, NOW);
  if (wrong !== undefined) throw new Error(wrong);
  orThrow(
    await setInstallerToken(
      database,
      { token: "a-token", expiresAt: null },
      { secrets, actor: ACTOR, now: NOW },
    ),
  );
  const keys: IssuedKey[] = [];
  for (const [index, text] of ODD_TEXTS.entries()) {
    const key = await issue(database, {
      email: `odd-${index}@example.org`,
      monthlyLimit: index === 0 ? Number.MAX_SAFE_INTEGER : index,
    });
    keys.push(key);
    await database.query(
      (sql) => sql`
        insert into events (id, received_at, key_id, license_id, event_type, model_name, inference_type,
                            duration_ms, success, error_message, metadata)
        select gen_random_uuid(), at, gen_random_uuid(), ${key.licenseUuid}::uuid, type, ${text}::text,
               'batch', ms, type <> 'error', ${text}::text,
               ${JSON.stringify({ text, deep: [null, { text }] })}::text::jsonb
          from (values ('2026-09-30T23:59:59.999999Z'::timestamptz, 'inference', 0.1::double precision),
                       ('2026-10-01T00:00:00Z', 'error', 5e-324),
                       ('2026-11-20T12:00:00.000001Z', 'model_load', null),
                       ('2031-01-01T00:00:00Z', 'inference', 'infinity')) as event (at, type, ms)`,
    );
    await database.query(
      (sql) => sql`
        insert into usage (license_id, month, used)
        values (${key.licenseUuid}::uuid, '2026-09-01', ${index}::bigint)`,
    );
    await database.query(
      (sql) => sql`
        insert into audit (at, actor, action, before, reason)
        values (${NOW}::timestamptz, ${text}::text, 'test', ${JSON.stringify([text, 1.1e-7])}::text::jsonb,
                ${text.slice(0, 2_000)}::text)`,
    );
  }
  await database.query(
    (sql) => sql`
      update keys set state = 'revoked', revoked_at = ${NOW}::timestamptz,
                      replaced_by = (select max(id::text)::uuid from keys)
       where license_id = ${keys[1]?.licenseUuid ?? ""}::uuid`,
  );
  await database.query(
    (sql) => sql`
      update licenses set own_features = '{"custom_models": {"granted": true}}', own_entitlements = '{"channels": 64}',
                          term_days = 30, latest_start = '2027-06-30', max_offline_days = 14, self_releases = 2,
                          shows_machines = false
       where id = ${keys[0]?.licenseUuid ?? ""}::uuid`,
  );
  await database.query(
    (sql) => sql`update tiers set entitlements = '{"channels": 8}' where tier = 'research'`,
  );
  await database.query(
    (sql) => sql`
      insert into refusals (key_id, code, reason, last_at, count)
      select id, code, reason, ${NOW}::timestamptz, ${Number.MAX_SAFE_INTEGER}::bigint
        from keys, (values ('INVALID_KEY', 'revoked'), ('QUOTA_EXCEEDED', '')) as refusal (code, reason)`,
  );
  await addModels(database);
  await ensureSigningKeys(database, { secrets: openSecrets(), now: NOW });
  await database.query(
    (sql) => sql`
      insert into signed_licenses (key_id, kid, jti, expires_at, signed_at, count)
      select keys.id, kid, gen_random_uuid(), ${NOW}::timestamptz, ${NOW}::timestamptz, 3 from keys, signing_keys`,
  );
  await database.query(
    (sql) => sql`
      insert into exported_licenses (jti, key_id, kid, expires_at, exported_at, exported_by)
      select gen_random_uuid(), key_id, kid, expires_at, signed_at, 'command:root' from signed_licenses`,
  );
  await database.query(
    (sql) => sql`
      insert into machines (id, license_id, fingerprint, name, activated_at, last_seen_at, active_until)
      select gen_random_uuid(), license_id, sha256(hash), 'é\\n', ${NOW}::timestamptz, ${NOW}::timestamptz, 'infinity'
        from keys`,
  );
  await database.query(
    (sql) => sql`
      insert into self_releases (license_id, released_at, machine_id)
      select license_id, ${NOW}::timestamptz, id from machines limit 1`,
  );
  const answer = { endpoint: "validate", code: "INVALID_KEY", reason: "revoked" };
  await addActivity(database, [{ hourMs: NOW.getTime(), ...answer, count: 7 }]);
  await database.query(
    (sql) => sql`
      insert into usage_days (day, is_imported, tier, mode, used) values ('2026-01-31', false, 'free', 'live+test', 9)`,
  );
  await database.query(
    (sql) => sql`
      insert into usage_days_progress (added_until, exact_until) values (${NOW}::timestamptz, '2026-02-01')`,
  );
  await database.query(
    (sql) => sql`
      insert into operators (name, role, created_at, removed_at)
      values ('olga', 'admin', ${NOW}::timestamptz, null), ('otto', 'viewer', ${NOW}::timestamptz, ${NOW}::timestamptz)`,
  );
  await database.query(
    (sql) => sql`
      insert into tokens (id, name, hash, scopes, tiers, state, created_by, created_at, renewed_at)
      select gen_random_uuid(), 'shop', min(hash), '{keys:read}', '{free}', 'disabled', 'command:root',
             ${NOW}::timestamptz, ${NOW}::timestamptz
        from keys`,
  );
  await database.query(
    (sql) => sql`
      insert into claims (key_id, claim, event_hash, event_id, claimed_at)
      select id, sha256(hash), hash, gen_random_uuid(), ${NOW}::timestamptz from keys`,
  );
  await database.query(
    (sql) => sql`
      with texts as (
        insert into event_texts (license_id, day, bytes) select license_id, '2026-11-20', 512 from keys
        on conflict do nothing
      )
      insert into installation_texts (part, day, bytes) values (3, '2026-11-20', 512)`,
  );
  await database.query(
    (sql) => sql`
      insert into former_emails (audit_id, account_id, old_email, new_email)
      select row_number() over (), id, 'before-' || email, email from accounts where email not like 'erased-%'`,
  );
  await database.query(
    (sql) => sql`
      with journal as (
        insert into usage_journals (id, license_id, machine, journal, last_number, last_digest, began_at, reported_at)
        select gen_random_uuid(), license_id, fingerprint, decode(repeat('0a', 16), 'hex'), 2, sha256('a'),
               ${NOW}::timestamptz, ${NOW}::timestamptz
          from machines limit 1
        returning id, license_id
      ),
      beyond as (update usage set over = 5 where license_id = (select license_id from journal))
      insert into usage_reports (id, journal_id, number, digest, made_at, imported_at, units, over, days, events, months, marks)
      select gen_random_uuid(), id, 2, sha256('a'), ${NOW}::timestamptz, ${NOW}::timestamptz, 3, 5, 1, 0,
             '[{"month": "2026-09"}]', '{revoked}'
        from journal`,
  );
  await database.query(
    (sql) => sql`
      insert into notices (id, kind, subject, occasion, stage, license_id, key_id, true_since, made_at, facts, state, closed_at,
                           closed_by, withdrawn_for)
      select gen_random_uuid(), 'license_end', license_id, '2027-01-31T23:59:59Z', -7, license_id, id, ${NOW}::timestamptz,
             ${NOW}::timestamptz, '{"days": 7}', 'withdrawn', ${NOW}::timestamptz, 'service:upkeep', 'other_end'
        from keys`,
  );
  await database.query(
    (sql) => sql`
      with muted as (
        insert into muted_notices (id, license_id, muted_at, muted_by)
        select gen_random_uuid(), id, ${NOW}::timestamptz, 'command:olga' from licenses
      ),
      full_ones as (
        insert into full_places (license_id, since) select id, ${NOW}::timestamptz from licenses on conflict do nothing
      )
      insert into key_wakings (key_id, silent_since, woke_at)
      select id, '2026-01-01', ${NOW}::timestamptz from keys`,
  );
  await database.query(
    (sql) => sql`
      insert into usage_changes (writer, month, license_ids, used)
      values (gen_random_uuid(), '2026-11-01', '{}', '{}')`,
  );
}

/** Adds a model with an address, and a model with a file; the test itself writes the file. */
async function addModels(database: Database): Promise<void> {
  const sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
  await database.query(
    (sql) => sql`
      with model as (
        insert into models (id, name, owner_account_id, listed_version, created_at)
        select gen_random_uuid(), name, (select min(id::text)::uuid from accounts), '1', ${NOW}::timestamptz
          from (values ('one'), ('two')) as model (name)
        returning id, name
      ),
      file as (
        insert into model_files (sha256, size_bytes, created_at) values (${sha256}, 6, ${NOW}::timestamptz)
        returning sha256
      )
      insert into model_versions (id, model_id, version, type, paradigm, n_features, n_classes, size_mb,
                                  download_url, checksum, file, requires_license, metadata, created_at)
      select gen_random_uuid(), model.id, '1', 'SvcLDA', 'p300', 8, 2, 0.1,
             case when name = 'one' then 'https://models.example/one' end, sha256,
             case when name = 'two' then sha256 end, 'free', '{"a": 1}', ${NOW}::timestamptz
        from model, file`,
  );
}

/** The bytes of the model file whose SHA-256 is in the filled database. */
export const MODEL_BYTES = Buffer.from("hello\n");

/** Returns the rows of every table as text, without transaction ids and without the audit row of a restore. */
export async function dump(database: Database): Promise<Record<string, string[]>> {
  const tables = await database.query<{ name: string }>(
    (sql) => sql`
      select relname as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
         and relname not in ('schema_migrations', 'usage_changes', 'login_codes', 'operator_sessions',
                             'idempotent_answers', 'processes', 'figures', 'figure_near_quota', 'figure_unused',
                             'figure_most_used', 'figure_latest_used', 'figure_runs_out', 'figure_full',
                             'figure_run', 'erasure_sweep', 'last_backup', 'taken_backups', 'failed_login_hours',
                             'shared_windows', 'too_many_requests', 'refused_hours', 'latency_steps', 'starts')
       order by relname`,
  );
  const dumped: Record<string, string[]> = {};
  for (const { name } of tables) {
    const rows = await database.query<{ row: string }>(
      (sql) => sql`
        select (to_jsonb(t) - 'changed_xid' - 'xid')::text as row from ${sql(name)} t
         where (to_jsonb(t) ->> 'action') is distinct from 'database.restore'
         order by (to_jsonb(t) - 'changed_xid' - 'xid')::text collate "C"`,
    );
    dumped[name] = rows.map(({ row }) => row);
  }
  return dumped;
}

/** Returns a root secret that is not the tests' secret. */
export function otherSecret(): string {
  return randomBytes(32).toString("hex");
}
