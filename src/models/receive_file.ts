/**
 * Receives the files of versions that were added without one. A file is written to the disk while it arrives, never
 * held in memory, and checked before its version is listed. An interrupted upload leaves nothing, and each upload can
 * be repeated: a version that has the same file already stays as it is.
 */
import { type Actor, auditCte, isHeld, nameOfActor, type Right } from "../audit/mod.ts";
import { HOUR_MS } from "../base/calendar.ts";
import type { Clock } from "../base/clock.ts";
import { isRefusal, type Refusal, refuse } from "../base/refusal.ts";
import { hasCode } from "../base/system_error.ts";
import type { Database } from "../database/mod.ts";
import { BucketFailure } from "./bucket/mod.ts";
import type { StoredFile } from "./file_store.ts";
import { toMegabytes } from "./model.ts";
import type { ModelsPlace } from "./model_files.ts";
import { checkShared } from "./shared_folder.ts";
import { NO_ROOM, storeBytes } from "./store_bytes.ts";

/** The file of a version, as its sender announces it. */
export interface Upload extends StoredFile {
  readonly name: string;
  readonly version: string;
  /** The name of the file for clients; by default they see the model's name and version. */
  readonly fileName: string | undefined;
  readonly body: ReadableStream<Uint8Array>;
  readonly actor: Actor;
  /** Asked when all bytes have arrived, and in the statement that lists the version. */
  readonly right: Right;
}

export interface UploadOptions extends ModelsPlace {
  readonly clock: Clock;
  /** The largest file, in gigabytes; 0 refuses every file. */
  readonly uploadMaxGb: number;
}

export type Uploads = ReturnType<typeof createUploads>;

/** The end of the refusals for an installation that has no address for clients. */
export const NO_PUBLIC_URL =
  "clients need an address to download its file; set CLAVIGER_PUBLIC_URL to the address under which they reach the service";

const GB = 1_000_000_000;
/** The most uploads in progress: each holds a connection and an open file. */
const AT_ONCE = 4;
/** One token or operator cannot take all of them. */
const AT_ONCE_EACH = 2;
/** A slower sender, after the first minute, would keep other uploads out. */
const LEAST_BYTES_PER_MS = 100;
const GRACE_MS = 60_000;
/** A file of 10 GB, with 700 kB a second. Also the longest time for which a session that has ended is known. */
const LONGEST_MS = 4 * HOUR_MS;

const TOO_MANY = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many files are being uploaded: wait as Retry-After says",
  { retryAfterSeconds: 10 },
);
const TOO_MANY_OF_ONE = refuse(
  "RATE_LIMIT_EXCEEDED",
  `You upload ${AT_ONCE_EACH} files already: wait as Retry-After says`,
  { retryAfterSeconds: 10 },
);
const INCOMPLETE = refuse(
  "INVALID_REQUEST",
  `Cannot upload file: it ended too early, came too slowly, or took more than ${LONGEST_MS / HOUR_MS} hours; upload it again`,
);
const WRONG_CHECKSUM = refuse(
  "INVALID_REQUEST",
  "Cannot upload file: the bytes that arrived have another SHA-256; upload it again with its own",
);

/** Creates what receives the files of one process. */
export function createUploads({ clock, uploadMaxGb, ...place }: UploadOptions) {
  const arriving = new Set<Upload>();
  return {
    uploadMaxGb,
    /** Receives the file and lists its version. Refuses before the first byte is read if that is possible. */
    async receive(database: Database, upload: Upload): Promise<Refusal | undefined> {
      const { body, sha256, sizeBytes, actor } = upload;
      if (sizeBytes > uploadMaxGb * GB) {
        const most = `CLAVIGER_UPLOAD_MAX_GB allows ${uploadMaxGb === 0 ? "no uploads" : `at most ${uploadMaxGb} GB`}`;
        return refuse("PAYLOAD_TOO_LARGE", `Cannot upload file: ${most}`);
      }
      const refused = (await checkShared(database, place)) ?? (await checkVersion(database, upload));
      if (refused !== undefined) return refused;
      if (arriving.size >= AT_ONCE) return TOO_MANY;
      const own = [...arriving].filter((each) => nameOfActor(each.actor) === nameOfActor(actor));
      if (own.length >= AT_ONCE_EACH) return TOO_MANY_OF_ONE;
      arriving.add(upload);
      const beganMs = clock.monotonicMs();
      try {
        const stored = await storeBytes(place, readUntilEnd(body, { clock, beganMs }), {
          now: clock.now(),
          sizeBytes,
          neededBytes: [...arriving].reduce((sum, each) => sum + each.sizeBytes, 0),
          onProgress() {},
          async check(arrived) {
            if (arrived.sizeBytes !== sizeBytes) return INCOMPLETE;
            if (arrived.sha256 !== sha256) return WRONG_CHECKSUM;
            // The statement that lists the version checks the right, too.
            if (!(await isHeld(database, upload.right, clock.now()))) return refuseLost(upload.right);
            return await checkVersion(database, upload);
          },
        });
        if (isRefusal(stored)) return stored;
        return (await listWithFile(database, upload, clock.now())) ?? (await checkVersion(database, upload));
      } catch (error) {
        if (isRefusal(error)) return error;
        if (hasCode(error, "ENOSPC") || hasCode(error, "EDQUOT")) return NO_ROOM;
        if (!(error instanceof BucketFailure)) throw error;
        return refuse("SERVICE_UNAVAILABLE", `Cannot upload file: ${error.message}`);
      } finally {
        arriving.delete(upload);
      }
    },
  };
}

/** Yields the bytes until the body ends, is interrupted or is too slow: their number tells whether it is whole. */
async function* readUntilEnd(
  body: ReadableStream<Uint8Array>,
  { clock, beganMs }: { readonly clock: Clock; readonly beganMs: number },
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    // Cancelling the body would close the connection on Node before the answer.
    for await (const chunk of body.values({ preventCancel: true })) {
      bytes += chunk.length;
      if (isTooSlow({ bytes, tookMs: clock.monotonicMs() - beganMs })) return;
      yield chunk;
    }
  } catch (error) {
    if (isRefusal(error)) throw error;
  }
}

/** Tells whether so many bytes in this time are too few, or the time is too long for any file. */
export function isTooSlow({ bytes, tookMs }: { readonly bytes: number; readonly tookMs: number }): boolean {
  return tookMs > LONGEST_MS || bytes < (tookMs - GRACE_MS) * LEAST_BYTES_PER_MS;
}

function refuseLost({ lost: { code, why } }: Right): Refusal {
  return refuse(code, `Cannot upload file: ${why}`);
}

/** Refuses a version that cannot get this file; one that has it already can get it again. */
async function checkVersion(
  database: Database,
  { name, version, sha256 }: Upload,
): Promise<Refusal | undefined> {
  const [found] = await database.query<{ takesFile: boolean }>(
    (sql) => sql`
      select v.retired_at is null and v.download_url is null and coalesce(v.file = ${sha256}, true) as "takesFile"
        from models m join model_versions v on v.model_id = m.id
       where m.name = ${name} and v.version = ${version}`,
  );
  if (found?.takesFile) return undefined;
  const why = "is retired or has another file or address, and a version never changes; add a new version";
  return found
    ? refuse("CONFLICT", `Cannot upload file: ${name} ${version} ${why}`)
    : refuse(
        "NOT_FOUND",
        `Cannot upload file: there is no ${name} ${version}; add it without an address first`,
      );
}

/**
 * Gives a version the file that it waits for, and lists it. Refuses a sender who has lost the right. Changes nothing if the
 * version does not wait.
 */
async function listWithFile(
  database: Database,
  { name, version, fileName, sha256, sizeBytes, actor, right }: Upload,
  now: Date,
): Promise<Refusal | undefined> {
  const [row] = await database.query<{ isHeld: boolean }>(
    (sql) => sql`
      with sender as (select ${right.holds(sql, now)} as is_held),
      waiting as (
        select v.id, v.model_id, m.owner_account_id
          from models m join model_versions v on v.model_id = m.id
         where m.name = ${name} and v.version = ${version}
           and v.retired_at is null and v.file is null and v.download_url is null and (select is_held from sender)
           for update
      ),
      stored as (
        insert into model_files (sha256, size_bytes, created_at)
        select ${sha256}, ${sizeBytes}::bigint, ${now}::timestamptz from waiting
        on conflict (sha256) do nothing
      ),
      filled as (
        update model_versions v set file = ${sha256}::text, checksum = ${sha256}::text, file_name = ${fileName ?? null}::text,
               size_mb = ${toMegabytes(sizeBytes)}::double precision
          from waiting where v.id = waiting.id
      ),
      listed as (
        update models m set listed_version = ${version}::text from waiting where m.id = waiting.model_id
        returning waiting.owner_account_id as account_id, null::jsonb as before,
                  jsonb_build_object('name', m.name, 'version', ${version}::text, 'checksum', ${sha256}::text) as after
      ),
      logged as (${auditCte(sql, { action: "model.upload", actor, at: now, from: sql`listed` })})
      select is_held as "isHeld" from sender`,
  );
  return row?.isHeld ? undefined : refuseLost(right);
}
