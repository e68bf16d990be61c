/** When processes and the database server were started, so that a change of the latency can be explained by one of them. */
import { VERSION } from "../../base/version.ts";
import type { Database, Fragment, Sql } from "../mod.ts";

/** A start, as it was noticed: within a minute, or when the database answered again. */
export interface Start {
  readonly at: Date;
  readonly kind: "process" | "database";
  /** The version of the process; the identity of the server. */
  readonly version: string;
  /** The version at the start before; null if none is known. */
  readonly versionBefore: string | null;
}

/** For how long starts are kept, and the last start before. */
const KEPT_HOURS = 48;
/** The most starts of each kind, for a process that ends again and again. */
const MOST_KEPT = 500;

/**
 * The parts of a `with` clause that note the start of the server, and of a process if it is given, and delete old starts. A
 * process gives its UUID only until its start is noted: later the row may be an old one that was deleted.
 */
export function noteStarts(sql: Sql, processUuid: string | undefined): Fragment {
  return sql`
    forgotten_starts as (
      select kind, id from starts
       where (kind, id) in (
               select kind, id
                 from (select kind, id, row_number() over newest as place, lag(at) over newest as next_at
                         from starts window newest as (partition by kind order by at desc, id)) as placed
                -- The last start before tells whether the first one that is kept was of another version.
                where place > ${MOST_KEPT} or next_at < now() - ${KEPT_HOURS}::integer * interval '1 hour'
             )
         for update skip locked
    ),
    deleted_starts as (delete from starts s using forgotten_starts f where s.kind = f.kind and s.id = f.id),
    noted_starts as (
      insert into starts (kind, id, version)
      select kind, id, version
        from (values ('process', ${processUuid ?? null}::text, ${VERSION}),
                     ('database', concat_ws(' ', server_identity(), extract(epoch from pg_postmaster_start_time())),
                      server_identity())) as noted (kind, id, version)
       where id is not null
      on conflict do nothing
    )`;
}

/** Lists the starts of a span, the earliest first. */
export async function listStarts(
  database: Pick<Database, "read">,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<readonly Start[]> {
  return await database.read<Start>(
    (sql) => sql`
      select *
        from (select at, kind, version,
                     lag(version) over (partition by kind order by at, id) as "versionBefore"
                from starts) as all_starts
       where at >= ${from}::timestamptz and at < ${to}::timestamptz
       order by at, kind, version`,
  );
}

/** Deletes the start of a process, by its UUID. */
export async function deleteStart(database: Pick<Database, "query">, processUuid: string): Promise<void> {
  await database.query((sql) => sql`delete from starts where kind = 'process' and id = ${processUuid}`);
}
