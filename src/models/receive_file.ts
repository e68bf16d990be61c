/**
 * Receives the files of versions that were added without one. A file is written to the disk while it arrives, never
 * held in memory, and checked before its version is listed. An interrupted upload leaves nothing, and each upload can
 * be repeated: a version that has the same file already stays as it is.
 */
import { type Actor, auditCte } from "../audit/mod.ts";
import { BucketFailure } from "../bucket/mod.ts";
import type { Clock } from "../clock.ts";
import type { Database } from "../database/mod.ts";
import { isRefusal, type Refusal, refuse } from "../refusal.ts";
import { hasCode } from "../system_error.ts";
import type { StoredFile } from "./file_store.ts";
import { toMegabytes } from "./model.ts";
import { type ModelsPlace, NO_ROOM, storeBytes } from "./model_files.ts";
import { checkShared } from "./shared_folder.ts";

/** The file of a version, as its sender announces it. */
export interface Upload extends StoredFile {
  readonly name: string;
  readonly version: string;
  /** The name of the file for clients; by default they see the model's name and version. */
  readonly fileName: string | undefined;
  readonly body: ReadableStream<Uint8Array>;
  readonly actor: Actor;
  /** Asked when all bytes have arrived, which can take hours: a token can be revoked in the meantime. */
  readonly isStillAllowed: () => Promise<boolean>;
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
/** A slower sender, after the first minute, would keep other uploads out. */
const LEAST_BYTES_PER_MS = 100;
const GRACE_MS = 60_000;

const TOO_MANY = refuse(
  "RATE_LIMIT_EXCEEDED",
  "Too many files are being uploaded: wait as Retry-After says",
  { retryAfterSeconds: 10 },
);
const INCOMPLETE = refuse(
  "INVALID_REQUEST",
  "Cannot upload file: it ended too early, or it came too slowly; upload it again",
);
const NO_LONGER_ALLOWED = refuse(
  "INVALID_TOKEN",
  "Cannot upload file: the token was revoked or has expired while the file arrived",
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
      const { body, sha256, sizeBytes, isStillAllowed } = upload;
      if (sizeBytes > uploadMaxGb * GB) {
        const most = `CLAVIGER_UPLOAD_MAX_GB allows ${uploadMaxGb === 0 ? "no uploads" : `at most ${uploadMaxGb} GB`}`;
        return refuse("PAYLOAD_TOO_LARGE", `Cannot upload file: ${most}`);
      }
      const refused = (await checkShared(database, place)) ?? (await checkVersion(database, upload));
      if (refused !== undefined) return refused;
      if (arriving.size >= AT_ONCE) return TOO_MANY;
      arriving.add(upload);
      const lateFromMs = clock.monotonicMs() + GRACE_MS;
      try {
        const stored = await storeBytes(place, readUntilEnd(body, { clock, lateFromMs }), {
          now: clock.now(),
          sizeBytes,
          neededBytes: [...arriving].reduce((sum, each) => sum + each.sizeBytes, 0),
          onProgress() {},
          async check(arrived) {
            if (arrived.sizeBytes !== sizeBytes) return INCOMPLETE;
            if (arrived.sha256 !== sha256) return WRONG_CHECKSUM;
            return (await isStillAllowed()) ? await checkVersion(database, upload) : NO_LONGER_ALLOWED;
          },
        });
        if (isRefusal(stored)) return stored;
        await listWithFile(database, upload, clock.now());
        return await checkVersion(database, upload);
      } catch (error) {
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
  { clock, lateFromMs }: { readonly clock: Clock; readonly lateFromMs: number },
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    // Cancelling the body would close the connection on Node before the answer.
    for await (const chunk of body.values({ preventCancel: true })) {
      bytes += chunk.length;
      if (bytes < (clock.monotonicMs() - lateFromMs) * LEAST_BYTES_PER_MS) return;
      yield chunk;
    }
  } catch {}
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

/** Gives a version the file that it waits for, and lists it. Changes nothing if the version does not wait. */
async function listWithFile(
  database: Database,
  { name, version, fileName, sha256, sizeBytes, actor }: Upload,
  now: Date,
): Promise<void> {
  await database.query(
    (sql) => sql`
      with waiting as (
        select v.id, v.model_id, m.owner_account_id
          from models m join model_versions v on v.model_id = m.id
         where m.name = ${name} and v.version = ${version}
           and v.retired_at is null and v.file is null and v.download_url is null for update
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
      )
      ${auditCte(sql, { action: "model.upload", actor, at: now, from: sql`listed` })}`,
  );
}
