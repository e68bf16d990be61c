/**
 * Links to hosted files: good for 15 minutes, for one key and one file, and usable as they stand.
 *
 *     <public>/v1/models/download/NAME/VERSION/FILE?key=key_…&expires=…&signer=…&signature=…
 *
 * A link carries the identifier of a key, never the key, and its signature covers the file's SHA-256 too: it
 * holds for these bytes alone. It does not cover the file's name, which is compared with the registry instead: links from
 * before names were in them stay good. Whether the key still may is asked when the link is used.
 */
import type { Clock } from "../clock.ts";
import { parseId, toId } from "../ids.ts";
import type { KeyRecord } from "../keys/mod.ts";
import { type ListedFile, toFileName } from "../models/mod.ts";
import type { Signer } from "../secrets/mod.ts";

export const DOWNLOAD_PATH = "/v1/models/download/";
export const LINK_SECONDS = 15 * 60;

/** A link's parameters, as they were given: nothing is believed yet. */
export interface LinkQuery {
  readonly key: string;
  readonly keyUuid: string;
  readonly expires: string;
  readonly signer: string;
  readonly signature: string;
}

export interface DownloadLinks {
  /** Makes the address of a file for a key; "" where the service was not told its own address. */
  linkTo(file: ListedFile, record: KeyRecord): string;
  /** True for a link to this file that this service signed and that has not expired. */
  isGood(link: LinkQuery, file: ListedFile): boolean;
}

export interface DownloadLinksOptions {
  readonly publicUrl: string | undefined;
  readonly signer: Signer;
  readonly clock: Clock;
}

const NAMES = ["key", "expires", "signer", "signature"] as const;

export function createDownloadLinks({ publicUrl, signer, clock }: DownloadLinksOptions): DownloadLinks {
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
    linkTo(file, { uuid }) {
      if (publicUrl === undefined) return "";
      const id = toId("key", uuid);
      const expires = String(nowSeconds() + LINK_SECONDS);
      const signature = signer.sign(fieldsOf(file, id, expires));
      const path = [file.name, file.version, toFileName(file)].map(encodeURIComponent).join("/");
      const query = `key=${id}&expires=${expires}&signer=${signer.id}&signature=${signature}`;
      return `${publicUrl}${DOWNLOAD_PATH}${path}?${query}`;
    },
    isGood({ key, expires, signer: signerId, signature }, file) {
      if (signerId !== signer.id || !signer.verify(fieldsOf(file, key, expires), signature)) return false;
      return Number(expires) > nowSeconds();
    },
  };
}

/**
 * Reads a link's parameters: undefined where there are none, null where they cannot be a link's, because one
 * is missing, is there twice, or has another form.
 */
export function readLink(query: URLSearchParams): LinkQuery | null | undefined {
  if (!NAMES.some((name) => query.has(name))) return undefined;
  if (NAMES.some((name) => query.getAll(name).length !== 1)) return null;
  const [key = "", expires = "", signer = "", signature = ""] = NAMES.map((name) => query.get(name) ?? "");
  const keyUuid = parseId("key", key);
  if (keyUuid === undefined || !/^\d{1,12}$/.test(expires) || !/^[\w-]{43}$/.test(signature)) return null;
  return { key, keyUuid, expires, signer, signature };
}
