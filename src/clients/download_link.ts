/**
 * Signs and checks links to hosted files. A link works for 15 minutes, for one key and one file, without a header.
 *
 *     <public>/v1/models/download/NAME/VERSION/FILE?key=key_…&expires=…&signer=…&signature=…
 *
 * A link carries the identifier of a key, never the key. Its signature also covers the file's SHA-256, so the link is
 * valid for these bytes only. The signature does not cover the file's name, so older links without a name stay valid;
 * the name is compared with the registry. The key is checked when the link is used.
 */
import { parseId, toId } from "../base/ids.ts";
import type { KeyRecord } from "../licensing/keys/mod.ts";
import { type ListedFile, toFileName } from "../models/mod.ts";
import type { AppOptions } from "./app_options.ts";

export const DOWNLOAD_PATH = "/v1/models/download/";
export const LINK_SECONDS = 15 * 60;

/** The parameters of a link as the client sent them; the signature is not checked yet. */
type LinkQuery = NonNullable<ReturnType<typeof readLink>>;

export type DownloadLinks = ReturnType<typeof createDownloadLinks>;

const NAMES = ["key", "expires", "signer", "signature"] as const;

/** Creates the functions that sign and check links. */
export function createDownloadLinks({
  publicUrl,
  linkSigner: signer,
  clock,
}: Pick<AppOptions, "publicUrl" | "linkSigner" | "clock">) {
  const nowSeconds = () => Math.floor(clock.nowMs() / 1_000);
  const fieldsOf = ({ sha256, name, version }: ListedFile, key: string, expires: string) => [
    sha256,
    name,
    version,
    key,
    expires,
    signer.id,
  ];
  return {
    /** Returns the address of a file for a key; undefined if the public address of the service is not set. */
    linkTo(file: ListedFile, { uuid }: KeyRecord): string | undefined {
      if (publicUrl === undefined) return undefined;
      const id = toId("key", uuid);
      const expires = String(nowSeconds() + LINK_SECONDS);
      const signature = signer.sign(fieldsOf(file, id, expires));
      const path = [file.name, file.version, toFileName(file)].map(encodeURIComponent).join("/");
      const query = `key=${id}&expires=${expires}&signer=${signer.id}&signature=${signature}`;
      return `${publicUrl}${DOWNLOAD_PATH}${path}?${query}`;
    },
    /** Tells whether this service signed the link for this file and the link has not expired. */
    isGood({ key, expires, signer: signerId, signature }: LinkQuery, file: ListedFile): boolean {
      if (signerId !== signer.id || !signer.verify(fieldsOf(file, key, expires), signature)) return false;
      return Number(expires) > nowSeconds();
    },
  };
}

/**
 * Reads the parameters of a link. Returns undefined if the query has none of them, and null if they cannot be those
 * of a link: a parameter is missing, comes twice, or has another form.
 */
export function readLink(query: URLSearchParams) {
  if (!NAMES.some((name) => query.has(name))) return undefined;
  if (NAMES.some((name) => query.getAll(name).length !== 1)) return null;
  const [key = "", expires = "", signer = "", signature = ""] = NAMES.map((name) => query.get(name) ?? "");
  const keyUuid = parseId("key", key);
  if (keyUuid === undefined || !/^\d{1,12}$/.test(expires) || !/^[\w-]{43}$/.test(signature)) return null;
  return { key, keyUuid, expires, signer, signature };
}
