/** The checks of the database server: version, connection, durability, writes, clock, and the schema. */
import { realpathSync } from "node:fs";
import { DAY_MS, toMinute } from "../../base/calendar.ts";
import type { Clock } from "../../base/clock.ts";
import { isLoopback } from "../../base/listener_url.ts";
import { counted } from "../../base/render_count.ts";
import { VERSION } from "../../base/version.ts";
import { readOperatorVersion } from "../../database/embedded/mod.ts";
import {
  checkSchema,
  type Database,
  type DatabaseAddress,
  migrationStatus,
  migrations,
  parseDatabaseTls,
  parseDatabaseUrl,
  refusedWrite,
  tryDisk,
} from "../../database/mod.ts";
import type { Config } from "../config/mod.ts";
import {
  type Check,
  type CheckResult,
  examine,
  type Finding,
  type FoundCauses,
  FREE_SPACE,
  fail,
  ok,
  RESTORE,
  warn,
} from "./finding.ts";

export interface ServerContext {
  readonly config: Config;
  readonly clock: Clock;
  readonly address: DatabaseAddress;
  readonly database: Database;
  /** The place of the database, as text for messages. */
  readonly place: string;
}

const SLIGHTLY_OFF_MS = 2_000;
const FAR_OFF_MS = 60_000;

/** Returns the checks of the server; the last one is that of the schema. */
export function listServerChecks({ databaseUrl }: Config): readonly Check<ServerContext>[] {
  return [
    { name: "database", examine: examineVersion },
    ...(databaseUrl === undefined ? [] : [{ name: "connection", examine: examineConnection }]),
    { name: "durability", examine: examineDurability },
    { name: "writes", examine: examineWrites },
    { name: "database clock", examine: examineClocks },
    { name: "schema", examine: examineSchema },
  ];
}

/** Examines the server, and last the schema. */
export async function examineServer(context: ServerContext, found?: FoundCauses): Promise<Finding[]> {
  return await examine(context, listServerChecks(context.config), found);
}

/**
 * The newest minor release of each major version that was known when this version of the program was made. It belongs to
 * the review of `build/vex.json`. Source: PostgreSQL's releases of November 2026. 14 is missing because it is refused.
 */
export const KNOWN_MINORS: Readonly<Record<string, number>> = { 15: 20, 16: 16, 17: 12, 18: 7 };

async function examineVersion(context: ServerContext): Promise<CheckResult> {
  const { database, config, place } = context;
  const [row] = await database.query<{ version: string; failures: number }>(
    (sql) => sql`
      select current_setting('server_version') as version,
             (select coalesce(sum(checksum_failures), 0)::bigint from pg_stat_database) as failures`,
  );
  if (row?.failures) {
    return fail(`PostgreSQL has read ${counted(row.failures, "damaged page")} in ${place}`, RESTORE);
  }
  const version = row?.version.split(" ")[0] ?? "unknown";
  const programs = config.databaseUrl === undefined ? await findPrograms(context) : undefined;
  const whose =
    programs === undefined ? "" : programs.isInside ? ", the one inside" : `, run by ${programs.bin}`;
  const message = `PostgreSQL ${version} in ${place}${whose}`;
  const waiting = config.postgresBin && readOperatorVersion(config.postgresBin);
  if (waiting !== undefined && (waiting !== version || programs?.isInside)) {
    const text = `${message}, while ${config.postgresBin} holds ${waiting}`;
    return warn(text, "restart the service: `systemctl restart claviger`");
  }
  const [major = "", minor] = version.split(".");
  const known = KNOWN_MINORS[major];
  // An operator cannot update the PostgreSQL inside, and the VEX of the release says which faults matter there.
  return known !== undefined && Number(minor) < known && !programs?.isInside
    ? warn(
        `${message}, older than ${major}.${known}, which was known when Claviger ${VERSION} was made`,
        `update PostgreSQL to the newest release of ${major}, and restart it`,
      )
    : ok(message);
}

/** Finds the folder of the programs that run a private cluster. Only the cluster's own user may query it. */
async function findPrograms({ database, config }: ServerContext) {
  const [row] = await database.query<{ bin: string }>(
    (sql) => sql`select setting as bin from pg_config where name = 'BINDIR'`,
  );
  return row && { bin: row.bin, isInside: row.bin.startsWith(`${realpathSync(config.dataDir)}/`) };
}

/**
 * Checks the encryption of the connection to an external server. The PostgreSQL inside needs no check: it has a socket
 * that no other user can open.
 */
async function examineConnection({ database, config }: ServerContext): Promise<CheckResult> {
  const url = parseDatabaseUrl(config.databaseUrl ?? "");
  const tls = url === undefined ? "it cannot be read" : parseDatabaseTls(url);
  if (url === undefined || typeof tls === "string") return fail(`DATABASE_URL: ${tls}`, "correct it");
  if (tls.protection === "verified") {
    return ok("encrypted, with a server whose certificate is verified");
  }
  if (url.servers.every(({ host }) => isLoopback(host))) return ok("within this machine");
  const [row] = await database.query<{ isEncrypted: boolean }>(
    (sql) => sql`select ssl as "isEncrypted" from pg_stat_ssl where pid = pg_backend_pid()`,
  );
  return warn(
    row?.isEncrypted
      ? "encrypted, but the server's certificate is not verified: anyone on the network path can pose as the server"
      : "not encrypted: anyone on the network path can read and change everything, including the password",
    "sslmode=verify-full in DATABASE_URL, and sslrootcert=FILE for an authority of your own",
  );
}

async function examineWrites({ database }: ServerContext): Promise<CheckResult> {
  try {
    const [row] = await database.query<{ isReadOnly: boolean }>(
      (sql) => sql`
        select current_setting('transaction_read_only')::boolean as "isReadOnly", lines
          from (${tryDisk(sql)}) written`,
    );
    if (!row?.isReadOnly) return ok("the database accepts writes");
    return fail("the database is read-only", "set default_transaction_read_only = off");
  } catch (error) {
    const refusal = refusedWrite(error);
    if (refusal === undefined) throw error;
    return fail(`the database refuses writes: ${refusal.message}`, FREE_SPACE);
  }
}

async function examineDurability({ database, config }: ServerContext): Promise<CheckResult> {
  const rows = await database.query<{ name: string; setting: string }>(
    (sql) => sql`
      select name, setting from pg_settings
       where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'data_checksums')`,
  );
  const off = rows.filter(({ setting }) => setting === "off").map(({ name }) => name);
  const losing = off.filter((name) => name !== "data_checksums");
  const where = config.databaseUrl === undefined ? "in the data folder's postgresql.conf" : "on the server";
  if (losing.length > 0) {
    const remedy = `set ${losing.map((name) => `${name} = on`).join(" and ")} ${where}, then restart it`;
    return fail(`a power cut can lose acknowledged changes: ${losing.join(", ")} off`, remedy);
  }
  return off.length > 0
    ? warn(
        "damage on disk is not detected: data_checksums off",
        "stop the server, then `pg_checksums --enable`",
      )
    : ok("fsync, full_page_writes, synchronous_commit and data_checksums on");
}

async function examineClocks({ database, clock }: ServerContext): Promise<CheckResult> {
  const began = clock.now().getTime();
  const [row] = await database.query<{ ms: number }>(
    (sql) => sql`select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as ms`,
  );
  // A time of the server between the start and the end of the query counts as equal.
  const ms = row?.ms ?? began;
  const ended = clock.now().getTime();
  const offMs = ms < began ? began - ms : ms > ended ? ms - ended : 0;
  if (offMs < SLIGHTLY_OFF_MS) return ok("the same as here");
  const text = `${Math.round(offMs / 1_000)} s ${ms < began ? "behind" : "ahead of"} this machine's`;
  return (offMs < FAR_OFF_MS ? warn : fail)(text, "timedatectl set-ntp true, on both machines");
}

async function examineSchema({ address, clock }: ServerContext): Promise<CheckResult> {
  const status = await migrationStatus(address, migrations);
  const refusal = checkSchema(status);
  const newest = status.applied.at(-1);
  const isNewer = newest !== undefined && newest.number > migrations.length;
  if (refusal !== undefined && status.isRunning && status.refusal === undefined)
    return fail(refusal.sentence, "see `claviger migrate --status` for how far it is");
  if (refusal !== undefined) {
    const remedy = isNewer ? "install the newer Claviger that migrated it" : "do what this message says";
    return fail(refusal.sentence, status.refusal === undefined ? "`claviger migrate`" : remedy);
  }
  if (newest !== undefined && newest.appliedAt.getTime() - DAY_MS > clock.now().getTime()) {
    const text = `was made at ${toMinute(newest.appliedAt)}, which is in the future`;
    return fail(text, "set this machine's clock right: timedatectl set-ntp true");
  }
  return ok(
    `${newest?.number}, ${isNewer ? "of a newer Claviger that allows this one" : "as this program needs it"}`,
  );
}
