/** TLS to an external server, as the driver is told of it. */
// The whole module: an older Node lacks one of its names, and must start to say which Node is needed.
import * as nodeTls from "node:tls";
import { CERTIFICATES_LIMIT_BYTES, readNamedFile } from "../read_regular_file.ts";
import { parseDatabaseTls } from "./database_tls.ts";
import type { DatabaseUrl } from "./database_url.ts";

export interface DriverTls {
  /** The address without what the driver would send to the server as a setting. */
  readonly href: string;
  readonly ssl: false | "prefer" | "require" | VerifyingTls;
}

interface VerifyingTls {
  readonly ca: string[];
  readonly rejectUnauthorized: true;
  checkServerIdentity(name: string, certificate: nodeTls.PeerCertificate): Error | undefined;
}

/** Throws for parameters that are refused when the setting is read. */
export function tlsOf(url: DatabaseUrl): DriverTls {
  const cleaned = new URL(url.first);
  cleaned.searchParams.delete("sslrootcert");
  const { href } = cleaned;
  const tls = parseDatabaseTls(url);
  if (typeof tls === "string") throw new Error(`Cannot use the address of the database: ${tls}`);
  const { protection, rootCertFile } = tls;
  const hosts = url.servers.map(({ host }) => host);
  if (protection === "plain") return { href, ssl: false };
  if (protection === "opportunistic") return { href, ssl: "prefer" };
  if (protection === "unverified") return { href, ssl: "require" };
  return {
    href,
    ssl: {
      ca: rootCertFile === undefined ? systemCertificates() : [certificatesOf(rootCertFile)],
      rejectUnauthorized: true,
      checkServerIdentity(name, certificate) {
        // For a numeric address the driver gives no name, and Node then checks for `localhost`.
        const names = hosts.includes(name) ? [name] : hosts;
        const errors = names.map((host) => nodeTls.checkServerIdentity(host, certificate));
        return errors.includes(undefined) ? undefined : errors[0];
      },
    },
  };
}

/** The authorities that the runtime trusts, and those that the host's administrator added. */
function systemCertificates(): string[] {
  return [...nodeTls.getCACertificates("default"), ...nodeTls.getCACertificates("system")];
}

const read = new Map<string, string>();

/** Kept: a pool may be replaced at any moment, and must not fail when the file is gone by then. */
function certificatesOf(path: string): string {
  const text = read.get(path) ?? readNamedFile(path, CERTIFICATES_LIMIT_BYTES).text;
  read.set(path, text);
  return text;
}
