/** Turns the TLS parameters of `DATABASE_URL` into options of the driver. */
// Imported as a whole: an older Node lacks `getCACertificates`, and must still start to say which Node is needed.
import * as nodeTls from "node:tls";
import { CERTIFICATES_LIMIT_BYTES, readNamedFile } from "../base/read_regular_file.ts";
import { toDriverUrl } from "./database_parameters.ts";
import { parseDatabaseTls } from "./database_tls.ts";
import type { DatabaseUrl } from "./database_url.ts";

/** The driver's word for each protection that does not verify the server. */
const UNVERIFIED = { plain: false, opportunistic: "prefer", unverified: "require" } as const;

/** Returns the driver's options. Throws for parameters that the check of the setting refuses before. */
export function tlsOf(url: DatabaseUrl) {
  const href = toDriverUrl(url);
  const tls = parseDatabaseTls(url);
  if (typeof tls === "string") throw new Error(`Cannot use the address of the database: ${tls}`);
  const { protection, rootCertFile } = tls;
  const hosts = url.servers.map(({ host }) => host);
  if (protection !== "verified") return { href, ssl: UNVERIFIED[protection] };
  return {
    href,
    ssl: {
      // Without a file: the authorities that the runtime trusts and the authorities that the host's administrator added.
      ca:
        rootCertFile === undefined
          ? [...nodeTls.getCACertificates("default"), ...nodeTls.getCACertificates("system")]
          : [certificatesOf(rootCertFile)],
      rejectUnauthorized: true,
      checkServerIdentity(name: string, certificate: nodeTls.PeerCertificate): Error | undefined {
        // For a numeric address the driver passes no name, and Node then checks for `localhost`.
        const names = hosts.includes(name) ? [name] : hosts;
        const errors = names.map((host) => nodeTls.checkServerIdentity(host, certificate));
        return errors.includes(undefined) ? undefined : errors[0];
      },
    },
  };
}

const read = new Map<string, string>();

/** Reads a file once and keeps the text: a new pool, opened at any moment, must not fail because the file is gone. */
function certificatesOf(path: string): string {
  const text = read.get(path) ?? readNamedFile(path, CERTIFICATES_LIMIT_BYTES);
  read.set(path, text);
  return text;
}
