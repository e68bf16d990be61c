/**
 * The address in `DATABASE_URL`: one server, or several of which one is the primary, as libpq writes them:
 * `postgres://user:password@one:5432,two:5433/claviger`. The standard `URL` reads one server at most, so the
 * list is read here.
 */
import { bracketedHost } from "../endpoints.ts";

/** Where a database is: a `postgres://` address, or the socket of the server inside. */
export type DatabaseAddress =
  | { readonly url: string }
  | { readonly socketPath: string; readonly user: string; readonly database: string };

export interface ServerPlace {
  /** A name or an address, of IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

export interface DatabaseUrl {
  /** In the order in which they are tried; at least one. */
  readonly servers: readonly ServerPlace[];
  /** The servers as they were written. */
  readonly places: string;
  /** The same address with the first of the servers alone. */
  readonly first: URL;
}

const FORM = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]+)(.*)$/is;
const PORT = 5432;

/** Reads an address; undefined where it is not one, or names no host. */
export function parseDatabaseUrl(text: string): DatabaseUrl | undefined {
  const [, before = "", places = "", after = ""] = FORM.exec(text.trim()) ?? [];
  const urls: URL[] = [];
  for (const place of places.split(",")) {
    const url = URL.parse(before + place + after);
    // Without a host the driver would take one from PGHOST, which nobody meant.
    if (url === null || url.hostname === "") return undefined;
    urls.push(url);
  }
  const [first] = urls;
  return first && { first, servers: urls.map(toPlace), places };
}

function toPlace({ hostname, port }: URL): ServerPlace {
  return { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || PORT) };
}

/** Names the servers and the database for people, never user or password. */
export function nameOfDatabase(text: string): string {
  const url = parseDatabaseUrl(text);
  if (url === undefined) return "an address that cannot be read";
  const servers = url.servers.map(({ host, port }) => `${bracketedHost(host)}:${port}`);
  return servers.join(",") + url.first.pathname.replace(/^\/$/, "");
}

/** The address with the password, and what the driver takes for one, replaced by `mask`. */
export function maskDatabaseUrl({ first, places }: DatabaseUrl, mask: string): string {
  const { protocol, username, password, pathname, searchParams } = first;
  // The driver takes a password from the query too.
  const query = new URLSearchParams(searchParams);
  for (const key of query.keys()) if (/pass/i.test(key)) query.set(key, mask);
  const user = username + (password === "" ? "" : `:${mask}`);
  const search = query.size === 0 ? "" : `?${query}`;
  return `${protocol}//${user === "" ? "" : `${user}@`}${places}${pathname}${search}`;
}
