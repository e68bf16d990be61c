import { CERTIFICATES_LIMIT_BYTES, readRegularFile } from "../../base/read_regular_file.ts";
import { NAMED_FILE_REASONS, reasonOf } from "../../base/system_error.ts";
import { BucketFailure } from "./_failure.ts";
import { ANSWER_LIMIT_BYTES, type BucketRequest, type Connection, send } from "./_send.ts";

/** A bucket as the settings describe it. */
export interface BucketSettings extends Pick<Connection, "url" | "limitMs" | "signal"> {
  readonly region: string;
  /** Absolute; undefined if no file is named and there is no credential. */
  readonly credentialsFile: string | undefined;
  /** The certificates of the authority to trust; undefined for those of the system. */
  readonly caFile: string | undefined;
}

/** A bucket, or the part of it below a prefix. Each function throws a {@linkcode BucketFailure}. */
export type Bucket = ReturnType<typeof createBucket>;

type ReadPart = (first: number, length: number) => Promise<Uint8Array>;

/** The size of a part. All but the last one must have 5 MiB. Source: Amazon S3 user guide, multipart upload limits. */
export const PART_BYTES = ANSWER_LIMIT_BYTES;
const MOST_PARTS = 10_000;
/** A list ends after so many answers, which have a million objects, so that a server cannot answer without an end. */
const MOST_PAGES = 1_000;
/** How long each of the tries to remove the parts of a failed upload may take. */
const CLEAN_UP_LIMIT_MS = 1_000;
const CREDENTIALS_LIMIT_BYTES = 16 * 1024;

/**
 * Reads the credentials and the certificates, and returns the bucket. Sends nothing. Throws a
 * {@linkcode BucketFailure}, whose message has no secret.
 */
export function openBucket({ url, region, credentialsFile, caFile, ...bounds }: BucketSettings): Bucket {
  const fail = (why: string) => new BucketFailure(url, why);
  const readText = (path: string, limitBytes: number) => {
    try {
      return readRegularFile(path, limitBytes);
    } catch (error) {
      throw fail(`${path}: ${reasonOf(error, NAMED_FILE_REASONS)}`);
    }
  };
  if (credentialsFile === undefined) {
    throw fail(
      "CLAVIGER_MODELS_S3_CREDENTIALS_FILE is missing, and there is no systemd credential claviger-models-s3",
    );
  }
  const text = readText(credentialsFile, CREDENTIALS_LIMIT_BYTES);
  const find = (name: string) => new RegExp(`^\\s*${name}\\s*=\\s*(\\S+)\\s*$`, "m").exec(text)?.[1];
  const [accessKeyId, secretAccessKey] = [find("aws_access_key_id"), find("aws_secret_access_key")];
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw fail(`${credentialsFile} must have a line aws_access_key_id=… and a line aws_secret_access_key=…`);
  const ca = caFile && readText(caFile, CERTIFICATES_LIMIT_BYTES);
  if (ca !== undefined && !ca.includes("-----BEGIN CERTIFICATE-----"))
    throw fail(`there is no certificate in PEM form in ${caFile}`);
  return createBucket({ url, access: { accessKeyId, secretAccessKey, region }, ca, ...bounds });
}

/** Creates a bucket on a connection. */
export function createBucket(to: Connection) {
  const { origin, pathname } = new URL(to.url);
  const [, name = "", prefix = ""] = /^\/([^/]+)\/?(.*)$/.exec(pathname) ?? [];
  const bucketUrl = `${origin}/${name}`;
  const start = prefix === "" ? "" : `${prefix}/`;
  const urlOf = (object: string) => `${to.url}/${object}`;
  const ask = (asked: BucketRequest) => send(to, asked);
  const fail = (why: string) => new BucketFailure(to.url, why);

  async function writeParts(url: string, sizeBytes: number, readPart: ReadPart): Promise<void> {
    const begun = await ask({ method: "POST", url: `${url}?uploads=` });
    const upload = encodeURIComponent(textOf(begun.body, "UploadId") ?? "");
    if (upload === "") throw fail("it began no upload by parts");
    const partBytes = Math.max(PART_BYTES, Math.ceil(sizeBytes / MOST_PARTS));
    try {
      const parts: string[] = [];
      for (let first = 0; first < sizeBytes; first += partBytes) {
        const body = await readPart(first, Math.min(partBytes, sizeBytes - first));
        const number = parts.length + 1;
        const part = `${url}?partNumber=${number}&uploadId=${upload}`;
        const { headers } = await ask({ method: "PUT", url: part, body });
        parts.push(`<Part><PartNumber>${number}</PartNumber><ETag>${headers.etag}</ETag></Part>`);
      }
      const body = Buffer.from(`<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`);
      // Only a reader of the object knows whether this succeeded: a server may find an error after its answer has
      // begun, and a repeated request gets 404 after the first one succeeded.
      await ask({ method: "POST", url: `${url}?uploadId=${upload}`, body });
    } catch (error) {
      // Also after the signal that ends all other requests.
      const shortly = { ...to, signal: undefined, limitMs: CLEAN_UP_LIMIT_MS };
      await send(shortly, { method: "DELETE", url: `${url}?uploadId=${upload}` }).catch(() => {});
      throw error;
    }
  }

  return {
    /** Its address, for messages. */
    url: to.url,
    /** Returns the size of an object; undefined if there is none of that name. */
    async sizeOf(object: string): Promise<number | undefined> {
      // An answer to HEAD has no code. A list tells a missing object from a missing bucket, and names a wrong secret.
      const listed = `${bucketUrl}?list-type=2&prefix=${encodeURIComponent(start + object)}`;
      const explain = () => ask({ method: "GET", url: listed });
      const { status, headers } = await ask({ method: "HEAD", url: urlOf(object) }).catch(async (error) => {
        if (!(error instanceof BucketFailure && error.isPassing)) await explain();
        throw error;
      });
      if (status !== 404) return Number(headers["content-length"]);
      await explain();
      return undefined;
    },
    /** Reads an object of that size by ranges. */
    async *read(object: string, sizeBytes: number) {
      for (let first = 0; first < sizeBytes; first += PART_BYTES) {
        const length = Math.min(PART_BYTES, sizeBytes - first);
        const headers = { range: `bytes=${first}-${first + length - 1}` };
        const { status, body } = await ask({ method: "GET", url: urlOf(object), headers });
        if (status === 404) throw fail(`its object ${object} is missing`);
        if (body.length !== length) throw fail(`its object ${object} is cut short`);
        yield body;
      }
    },
    /**
     * Writes an object by parts; it appears whole or not at all. The server checks the SHA-256 of each part. Read the
     * object afterwards: the server may fail without saying so.
     */
    async write(object: string, sizeBytes: number, readPart: ReadPart) {
      if (sizeBytes > PART_BYTES) await writeParts(urlOf(object), sizeBytes, readPart);
      else await ask({ method: "PUT", url: urlOf(object), body: await readPart(0, sizeBytes) });
    },
    async remove(object: string) {
      await ask({ method: "DELETE", url: urlOf(object) });
    },
    /** Lists the objects, by their names below the prefix. */
    async *list() {
      let more = "";
      for (let page = 0; page < MOST_PAGES; page++) {
        const query = `list-type=2&prefix=${encodeURIComponent(start)}${more}`;
        const text = (await ask({ method: "GET", url: `${bucketUrl}?${query}` })).body.toString();
        // Not by a pattern for a whole entry: with many beginnings and no end it would take minutes.
        for (const contents of text.split("<Contents>").slice(1)) {
          yield {
            name: (textOf(contents, "Key") ?? "").slice(start.length),
            sizeBytes: Number(textOf(contents, "Size")),
            changedAt: new Date(textOf(contents, "LastModified") ?? ""),
          };
        }
        const next = textOf(text, "NextContinuationToken");
        if (next === undefined || textOf(text, "IsTruncated") !== "true") return;
        more = `&continuation-token=${encodeURIComponent(next)}`;
      }
      throw fail("its list of objects does not end");
    },
  };
}

/** Returns the text of the first element of that name. The names and numbers of this protocol need no XML parser. */
function textOf(xml: Buffer | string, element: string): string | undefined {
  return new RegExp(`<${element}>([^<]*)</${element}>`).exec(xml.toString())?.[1]?.replaceAll("&amp;", "&");
}
