/**
 * The file of a backup, so that it can be read without this program.
 *
 * It is a tar compressed with Zstandard: `tar --zstd -xf FILE` unpacks it. In it, in this order:
 *
 *     backup.json               what it is: the version and brand of Claviger, the time, the installation, how many keys
 *                               it has, the migrations that the database had, the tables with their columns, and
 *                               the model files that could not be saved, each with the reason
 *     secret                    the root secret as one line, if the backup contains it
 *     tables/NAME/000001.copy   the rows of a table as PostgreSQL's `copy … to stdout` writes them: text
 *     tables/NAME/000002.copy   format, UTF-8, UTC. The size of a tar's file must be known before its first
 *     …                         byte, so a table is in parts of whole rows; an empty table has no part
 *     models/SHA256             model files, if the backup contains them; the files that `beside` names are in a folder
 *                               beside the backup instead: `models/ab/abcdef…`, each under its SHA-256
 *     sums.json                 rows, bytes and SHA-256 of each table (of all its parts together), of each saved
 *                               model file, and the SHA-256 of all bytes of the tar before this entry
 *
 * 40 bytes follow the compressed tar; Zstandard skips them: `5c2a4d18 20000000`, and the SHA-256 of all bytes of the
 * file before them.
 *
 * To load a backup by hand, apply the files of `sql/` up to the last of `migrations` to an empty
 * database; then for each table of `backup.json`, in its order, with the columns that it names,
 *
 *     cat tables/keys/*.copy | psql -c 'copy keys (id, license_id, …) from stdin'
 *
 * and set the identity sequences:
 *
 *     select setval(pg_get_serial_sequence('audit', 'id'), max(id)) from audit
 *
 * The order of the tables fits their foreign keys. The rows are in the order of `order_by`, so that the same rows
 * give the same bytes. Columns of type `xid8` are left out: they hold transaction ids of the cluster that
 * the backup came from, and get their defaults. A partitioned table is one table; `months` names its
 * partitions that have rows. `usage_changes`, whose rows live for a minute, and `schema_migrations` are left out.
 */
import * as v from "valibot";

export const FORMAT = "claviger-backup";
/**
 * The newest format. Only its heads have `installation`, `keys` and `missing_models`. Format 2 was for the backups of a
 * folder, whose heads have `beside`, with the installation in it; all others had format 1.
 */
export const FORMAT_VERSION = 3;

export const HEAD_NAME = "backup.json";
export const SECRET_NAME = "secret";
export const SUMS_NAME = "sums.json";

export const PART_BYTES = 4 * 1024 * 1024;

/** How many bytes Zstandard gives at once. With the 16 kB of the runtime, each call costs more than its bytes. */
export const ZSTD_CHUNK_BYTES = 256 * 1024;

/** Returns the tar name of a part of a table; parts count from 1. */
export function partName(table: string, number: number): string {
  return `tables/${table}/${String(number).padStart(6, "0")}.copy`;
}

/** Returns the tar name of a model file. */
export function modelName(sha256: string): string {
  return `models/${sha256}`;
}

/** A name that needs no quotes in PostgreSQL, as all our names. */
const name = v.pipe(v.string(), v.regex(/^[a-z_][a-z0-9_]{0,62}$/));
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const digest = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const modelFile = v.strictObject({ sha256: digest, bytes: count });

/** A model file that the database names and the backup does not have. */
const missingModel = v.strictObject({
  ...modelFile.entries,
  /** The versions of models that have it, each as `name version`. */
  versions: v.array(v.string()),
  /** The reason as a phrase. */
  why: v.string(),
});

const tableSchema = v.strictObject({
  name,
  columns: v.pipe(v.array(name), v.minLength(1)),
  order_by: v.pipe(v.array(name), v.minLength(1)),
  /** The first days of the months (UTC) that have rows; only for a partitioned table. */
  months: v.optional(v.array(v.pipe(v.string(), v.regex(/^\d{4}-\d\d-01$/)))),
});

export const headSchema = v.strictObject({
  format: v.literal(FORMAT),
  format_version: v.picklist([1, 2, FORMAT_VERSION]),
  claviger: v.string(),
  made_at: v.pipe(v.string(), v.isoTimestamp()),
  brand: v.string(),
  /** The version of the source server, such as `180004`. */
  postgres: count,
  migrations: v.pipe(v.array(v.strictObject({ number: count, name: v.string(), checksum: digest }))),
  tables: v.array(tableSchema),
  secret: v.boolean(),
  models: v.boolean(),
  /**
   * The SHA-256 of the sealed canary, by which the backups of one installation know each other; null before the first
   * start has sealed one.
   */
  installation: v.optional(v.nullable(digest)),
  /** How many keys the database has, also revoked ones: a key is never deleted. */
  keys: v.optional(count),
  missing_models: v.optional(v.array(missingModel)),
  beside: v.optional(
    v.strictObject({
      /** Only in format 2. */
      installation: v.optional(v.nullable(digest)),
      /** The files that the backup needs in the folder `models` beside it. */
      files: v.array(modelFile),
    }),
  ),
});

/** Returns the installation of a backup; undefined if an earlier format does not tell it, or if it had none yet. */
export function installationOf({ installation, beside }: Head): string | undefined {
  return installation ?? beside?.installation ?? undefined;
}

export type MissingModel = v.InferOutput<typeof missingModel>;
export type BackedUpTable = v.InferOutput<typeof tableSchema>;
export type Head = v.InferOutput<typeof headSchema>;

/** The rows, bytes and SHA-256 of a table. */
export interface TableSum extends v.InferOutput<typeof modelFile> {
  readonly name: string;
  readonly rows: number;
}

export interface Sums {
  readonly tables: TableSum[];
  readonly models: v.InferOutput<typeof modelFile>[];
  sha256: string;
}

/** Renders a JSON file of the backup. Equal values give equal bytes. */
export function renderJson(value: Head | Sums): Buffer {
  return Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
}
