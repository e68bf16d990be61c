/**
 * The rows that the database must hold after all answers so far: the rows from before, and the changes that
 * successful answers reported. The comparison finds a refused request that changed a row, and a success that
 * did not.
 */
import type { Clock } from "../../src/base/clock.ts";
import { parseId } from "../../src/base/ids.ts";
import type { Database } from "../../src/database/mod.ts";
import type { Actors } from "./actors.ts";
import type { RenderedRequest } from "./requests.ts";
import type { WireAnswer } from "./wire.ts";

export interface ExpectedRows {
  /** Starts again from the rows that the database has now. Needed after each change that no request made. */
  begin(): Promise<void>;
  /** Enters the changes that an answer reports. */
  enter(request: RenderedRequest, answer: WireAnswer): void;
  /** Compares with the database while no request is in flight; returns the first difference. */
  compare(): Promise<string | undefined>;
}

interface State {
  /** A digest of each table that no request may change. */
  readonly digests: Readonly<Record<string, string>>;
  readonly audit: number;
  readonly claims: number;
  readonly events: number;
  /** How many licenses were signed for clients. */
  readonly signed: number;
  /** The UUIDs of machines. */
  readonly machines: ReadonlySet<string>;
  /** The used units by license. */
  readonly used: Readonly<Record<string, number>>;
  readonly revoked: ReadonlySet<string>;
}

/** The entry for one event, made when it is first acknowledged. */
interface Entry {
  readonly keys: readonly string[];
  hasClaim: boolean;
}

/**
 * The tables without a digest. `compare()` counts the rows of `audit`, `claims` and `machines`, and adds up those of
 * `usage` and `signed_licenses`. `usage_changes` holds messages to other processes for a minute, and an accepted
 * event adds to `event_texts` and `installation_texts`. A refused request may change `refusals`, `refused_hours`,
 * `too_many_requests` and, where no place is free, `full_places` alone. The service writes the others by itself, and
 * notices with their rows of the audit log.
 */
const ACCOUNTED = [
  ...["audit", "claims", "usage", "signed_licenses", "machines", "usage_changes", "refusals"],
  ...["event_texts", "installation_texts", "too_many_requests", "refused_hours"],
  ...["full_places", "key_wakings", "notices"],
  ...[
    "processes",
    "starts",
    "latency_steps",
    "activity_hours",
    "activity_days",
    "usage_days",
    "usage_days_progress",
  ],
];

export function createExpectedRows(
  database: Database,
  options: { readonly actors: Actors; readonly clock: Clock },
): ExpectedRows {
  const { actors, clock } = options;
  let before: State | undefined;
  let begunAt = clock.now();
  let entries = new Map<string, Entry>();
  let revocations: (readonly string[])[] = [];
  let signed = 0;
  let machines = new Set<string>();
  /** Earlier events: a request with a claimed Idempotency-Key gets the same event again. */
  const known = new Set<string>();

  const toUuids = (apiKeys: readonly string[]) =>
    apiKeys.map((apiKey) => actors.find(apiKey)?.uuid).filter((uuid) => uuid !== undefined);

  return {
    async begin() {
      for (const id of entries.keys()) known.add(id);
      entries = new Map();
      revocations = [];
      signed = 0;
      machines = new Set();
      begunAt = clock.now();
      before = await readState(database);
    },
    enter(request, { status, body }) {
      if (isRevocation(status, body)) {
        const keys = toUuids(request.apiKeys);
        revocations.push(keys);
        for (const apiKey of request.apiKeys) actors.noteRevoked(apiKey);
      }
      if (isLicense(status, body)) signed++;
      const machine = machineOf(status, body);
      if (machine !== undefined) machines.add(machine);
      if (status !== 202) return;
      const id = parseId("evt", JSON.parse(body.toString()).event_id) ?? "";
      if (known.has(id)) return;
      const entry = entries.get(id);
      if (entry === undefined)
        entries.set(id, { keys: toUuids(request.apiKeys), hasClaim: request.hasClaim });
      else entry.hasClaim &&= request.hasClaim;
    },
    async compare() {
      if (before === undefined) throw new Error("Cannot compare: begin() was not called");
      const now = await readState(database);
      for (const [table, digest] of Object.entries(now.digests)) {
        if (digest !== before.digests[table]) return `the table ${table} was changed`;
      }
      const rows = await database.query<EventRow>(
        (sql) => sql`
          select id::text, key_id::text as "keyId", license_id::text as "licenseId", event_type as type
            from events where received_at >= ${begunAt}::timestamptz`,
      );
      const activated = machines.difference(before.machines);
      return (
        compareEvents(rows, entries) ??
        compareMachines(now.machines.difference(before.machines), activated) ??
        expectCount("events", now.events, before.events + entries.size) ??
        expectCount("signed licenses", now.signed, before.signed + signed) ??
        expectCount("claims", now.claims, before.claims + count(entries, ({ hasClaim }) => hasClaim)) ??
        compareUse(rows, { before: before.used, now: now.used }) ??
        compareRevoked(revocations, now.revoked.difference(before.revoked)) ??
        expectCount("audit", now.audit, before.audit + revocations.length + activated.size)
      );
    },
  };
}

/** Returns whether an answer says that a key was revoked. */
export function isRevocation(status: number, body: Buffer): boolean {
  return status === 200 && body.toString("latin1", 0, REVOKED.length) === REVOKED;
}
const REVOKED = '{"revoked":true';

/** Returns whether an answer is a signed license. */
function isLicense(status: number, body: Buffer): boolean {
  return status === 200 && body.toString("latin1", 0, LICENSE.length) === LICENSE;
}
const LICENSE = '{"license":"';

/** Returns the UUID of the machine of a successful answer. */
function machineOf(status: number, body: Buffer): string | undefined {
  if (status !== 200) return undefined;
  return (
    parseId("mch", /^\{[^{}]*"machine_id":"(mch_[0-9a-f]{32})"/.exec(body.toString("latin1"))?.[1] ?? "") ??
    undefined
  );
}

interface EventRow {
  readonly id: string;
  readonly keyId: string;
  readonly licenseId: string;
  readonly type: string;
}

function compareEvents(rows: readonly EventRow[], entries: ReadonlyMap<string, Entry>): string | undefined {
  const stored = new Set(rows.map(({ id }) => id));
  for (const id of entries.keys())
    if (!stored.has(id)) return `the event ${id} was acknowledged but is not stored`;
  for (const { id, keyId, type } of rows) {
    const entry = entries.get(id);
    if (entry === undefined) return `an event of type ${type} is stored but was not acknowledged`;
    if (!entry.keys.includes(keyId)) return `the event ${id} belongs to a key that its request did not carry`;
  }
  return undefined;
}

function compareMachines(added: ReadonlySet<string>, activated: ReadonlySet<string>): string | undefined {
  if (!activated.isSubsetOf(added)) return "a machine was activated but is not stored";
  return expectCount("new machines", added.size, activated.size);
}

function compareUse(
  rows: readonly EventRow[],
  { before, now }: { readonly before: State["used"]; readonly now: State["used"] },
): string | undefined {
  const expected: Record<string, number> = { ...before };
  for (const { type, licenseId } of rows) {
    if (type === "inference") expected[licenseId] = (expected[licenseId] ?? 0) + 1;
  }
  for (const licenseId of new Set([...Object.keys(expected), ...Object.keys(now)])) {
    const [is, should] = [now[licenseId] ?? 0, expected[licenseId] ?? 0];
    if (is !== should) return `the license ${licenseId} was charged ${is} units instead of ${should}`;
  }
  return undefined;
}

function compareRevoked(
  revocations: readonly (readonly string[])[],
  added: ReadonlySet<string>,
): string | undefined {
  for (const keys of revocations) {
    if (!keys.some((uuid) => added.has(uuid))) return "a revocation was acknowledged but is not stored";
  }
  return expectCount("revoked keys", added.size, revocations.length);
}

function expectCount(what: string, is: number, should: number): string | undefined {
  return is === should ? undefined : `there are ${is} ${what} instead of ${should}`;
}

function count<Value>(map: ReadonlyMap<string, Value>, isCounted: (value: Value) => boolean): number {
  let counted = 0;
  for (const value of map.values()) if (isCounted(value)) counted++;
  return counted;
}

async function readState(database: Database): Promise<State> {
  // Partitions are left out, because their rows are counted as rows of events.
  const tables = await database.query<{ name: string }>(
    (sql) => sql`
      select quote_ident(relname) as name from pg_class
       where relnamespace = 'public'::regnamespace and relkind = 'r' and not relispartition order by 1`,
  );
  const digests: Record<string, string> = {};
  for (const { name } of tables) {
    if (ACCOUNTED.includes(name)) continue;
    // The time of a key's last use is left out: the service may write it later.
    const row = COMPARED_COLUMNS[name] ?? `${name}::text`;
    const [found] = await database.query<{ digest: string }>((sql) =>
      sql.unsafe(`select coalesce(md5(string_agg(${row}, '|' order by ${row})), '') as digest from ${name}`),
    );
    digests[name] = found?.digest ?? "";
  }
  const [counts] = await database.query<{ audit: number; claims: number; events: number; signed: number }>(
    (sql) => sql`
      select (select count(*) from audit where action not like 'notice.%') as audit, (select count(*) from claims) as claims,
             (select count(*) from events) as events,
             (select coalesce(sum(count), 0) from signed_licenses) as signed`,
  );
  const used = await database.query<{ id: string; used: number }>(
    (sql) => sql`select license_id::text as id, sum(used)::bigint as used from usage group by 1 order by 1`,
  );
  const revoked = await database.query<{ id: string }>(
    (sql) => sql`
      select id::text from keys join listed_keys l on l.key_id = id
       where keys.state = 'revoked' and l.state = 'revoked'`,
  );
  const machines = await database.query<{ id: string }>((sql) => sql`select id::text from machines`);
  return {
    digests,
    machines: new Set(machines.map(({ id }) => id)),
    audit: Number(counts?.audit),
    claims: Number(counts?.claims),
    events: Number(counts?.events),
    signed: Number(counts?.signed),
    used: Object.fromEntries(used.map((row) => [row.id, Number(row.used)])),
    revoked: new Set(revoked.map(({ id }) => id)),
  };
}

/** The columns of a key without its last use, and without the state "revoked", which is compared separately. */
const COMPARED_COLUMNS: Readonly<Record<string, string>> = {
  // A release of a full license changes its mark, by which other processes learn that a place is free.
  licenses: "(to_jsonb(licenses) - 'changed_xid')::text",
  keys: `
    concat_ws(',', id, license_id, encode(hash, 'hex'), hint, mode, state = 'suspended',
              own_expires_at, replaced_by, created_at)`.trim(),
  listed_keys: "concat_ws(',', key_id, account_id, tier, mode, state = 'suspended', expires_at)",
};
