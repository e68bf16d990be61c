/** Reads an upload of a model's file, for the API and for the console. */
import type { Actor } from "../../audit/mod.ts";
import { isSha256, NO_PUBLIC_URL, type Upload } from "../../models/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { refuseEncoded } from "../../wire/mod.ts";
import { modelVersionFor } from "../frame/api/path_ids.ts";
import type { AdminOptions } from "../frame/options.ts";

type Sent = Pick<Upload, "name" | "version" | "fileName"> & {
  readonly request: Request;
  readonly actor: Actor;
};

export const UPLOAD_PATH = modelVersionFor("upload file");
/** The headers of an upload, for the OpenAPI document. */
export const UPLOAD_HEADERS = [
  { name: "Content-Length", required: true, description: "The size of the file in bytes" },
  { name: "X-Checksum-SHA256", description: "The SHA-256 of the file in hexadecimal digits" },
  { name: "Digest", description: "In its place: `sha-256=` and the SHA-256 of the file in base64" },
].map((each) => ({ ...each, in: "header", schema: { type: "string" } }));

const WRONG_HEADERS = refuse(
  "INVALID_REQUEST",
  "Cannot upload file: the header Content-Length must be its size in bytes, at least 1, and X-Checksum-SHA256 its SHA-256 in " +
    "hexadecimal digits, or Digest sha-256= and its SHA-256 in base64",
);

/** Takes the file of a version from the body of a request, and renders what the version has now. */
export async function takeFile(
  { uploads, database, publicUrl }: Pick<AdminOptions, "uploads" | "database" | "publicUrl">,
  { request: { headers, body }, ...upload }: Sent,
): Promise<object | Refusal> {
  const encoded = refuseEncoded(headers);
  if (encoded !== undefined) return encoded;
  const sizeBytes = Number(headers.get("content-length") ?? 0);
  const sha256 = readChecksum(headers);
  if (!(sizeBytes > 0) || body === null || sha256 === undefined) return WRONG_HEADERS;
  if (publicUrl === undefined) return refuse("CONFLICT", `Cannot upload file: ${NO_PUBLIC_URL}`);
  const { name, version } = upload;
  const stored = await uploads.receive(database, { ...upload, body, sizeBytes, sha256 });
  return isRefusal(stored) ? stored : { name, version, size_bytes: sizeBytes, checksum: `sha256:${sha256}` };
}

/** Reads the SHA-256 in the headers; undefined if there is none, or if two differ. */
function readChecksum(headers: Headers): string | undefined {
  const [, base64] =
    /(?:^|,)\s*sha-256=([A-Za-z0-9+/]{43}=)\s*(?:,|$)/i.exec(headers.get("digest") ?? "") ?? [];
  const digest = base64 && Buffer.from(base64, "base64").toString("hex");
  const checksum = headers.get("x-checksum-sha256")?.toLowerCase() ?? digest;
  const isValid = checksum !== undefined && isSha256(checksum) && (digest ?? checksum) === checksum;
  return isValid ? checksum : undefined;
}
