/**
 * Reads the address in `DATABASE_URL`. It names one server, or several servers of which one is the primary, in the
 * form of libpq: `postgres://user:password@one:5432,two:5433/claviger`. The standard `URL` reads one server at
 * most, so this file reads the list.
 */
import { bracketedHost } from "../base/listener_url.ts";
import { createServers, type Servers } from "./_servers.ts";

/**
 * The address of a database: a `postgres://` address, or the socket of the PostgreSQL inside. `servers` remembers for
 * all users of the address which server is the primary; without it each of them finds the primary for itself.
 */
export type DatabaseAddress = { readonly url: string; readonly servers?: Servers } | InsideAddress;

interface InsideAddress {
  readonly socketPath: string;
  readonly user: string;
  readonly database: string;
}

/** Tells whether an address is that of the PostgreSQL inside. */
export function isInsideAddress(address: DatabaseAddress): address is InsideAddress {
  return "socketPath" in address;
}

interface ServerAddress {
  /** A name or an IP address; an IPv6 address without brackets. */
  readonly host: string;
  readonly port: number;
}

export interface DatabaseUrl {
  /** At least one, in the order in which they are tried. */
  readonly servers: readonly ServerAddress[];
  /** The servers as the operator wrote them. */
  readonly serverList: string;
  /** The same address with only the first server. */
  readonly first: URL;
}

const FORM = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]+)(.*)$/is;
const PORT = 5432;

/** Reads an address; undefined if the text is not an address or names no host. */
export function parseDatabaseUrl(text: string): DatabaseUrl | undefined {
  const [, before = "", serverList = "", after = ""] = FORM.exec(text.trim()) ?? [];
  const urls: URL[] = [];
  for (const server of serverList.split(",")) {
    const url = URL.parse(before + server + after);
    // Without a host the driver would use PGHOST, which the operator did not mean.
    if (url === null || url.hostname === "") return undefined;
    urls.push(url);
  }
  const [first] = urls;
  return first && { first, servers: urls.map(toServer), serverList };
}

function toServer({ hostname, port }: URL): ServerAddress {
  return { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || PORT) };
}

/** Returns the address of the database at `url`, whose users share one memory of the primary. */
export function toDatabaseAddress(url: string): DatabaseAddress {
  return { url, servers: createServers(listServers(url)) };
}

/** Returns the memory of an address; a new one if the address has none. */
export function serversOf(address: DatabaseAddress): Servers {
  if (isInsideAddress(address)) return createServers([{ path: address.socketPath }]);
  return address.servers ?? createServers(listServers(address.url));
}

function listServers(text: string): readonly ServerAddress[] {
  const url = parseDatabaseUrl(text);
  if (url === undefined) throw new Error("Cannot read the address of the database");
  return url.servers;
}

/** Returns the servers and the database as a name for people, without the user and the password. */
export function nameOfDatabase(text: string): string {
  const url = parseDatabaseUrl(text);
  if (url === undefined) return "an address that cannot be read";
  const servers = url.servers.map(({ host, port }) => `${bracketedHost(host)}:${port}`);
  return servers.join(",") + url.first.pathname.replace(/^\/$/, "");
}

/** Returns the address with `mask` in place of each password. */
export function maskDatabaseUrl({ first, serverList }: DatabaseUrl, mask: string): string {
  const { protocol, username, password, pathname, searchParams } = first;
  // The driver also accepts a password in the query.
  const query = new URLSearchParams(searchParams);
  for (const key of query.keys()) if (/pass/i.test(key)) query.set(key, mask);
  const user = username + (password === "" ? "" : `:${mask}`);
  const search = query.size === 0 ? "" : `?${query}`;
  return `${protocol}//${user === "" ? "" : `${user}@`}${serverList}${pathname}${search}`;
}
