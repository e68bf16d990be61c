/**
 * Tells which parameters `DATABASE_URL` may have. The names are libpq's
 * (https://www.postgresql.org/docs/18/libpq-connect.html). Others would reach the server as settings, and a server refuses a
 * connection for one that it does not know, such as the `schema` that another program's address has.
 */
import type { DatabaseUrl } from "./database_url.ts";

/** The parameters that the driver needs: settings of the session, and how TLS begins. */
const OF_DRIVER = ["application_name", "options", "sslnegotiation"];

/**
 * The parameters that Claviger accepts, with the values that ask for nothing that it does not do anyway. It has deadlines of
 * its own, looks for the primary, and never uses GSSAPI.
 */
const ACCEPTED: Readonly<Record<string, RegExp>> = {
  ...Object.fromEntries(OF_DRIVER.map((name) => [name, /^/])),
  ssl: /^/,
  sslmode: /^/,
  sslrootcert: /^/,
  // `require` needs a verified server: see `database_tls.ts`.
  channel_binding: /^(disable|prefer|require)$/,
  client_encoding: /^(auto|utf-?8)$/i,
  connect_timeout: /^/,
  fallback_application_name: /^/,
  gssdelegation: /^0$/,
  gssencmode: /^(disable|prefer)$/,
  gsslib: /^/,
  keepalives: /^/,
  keepalives_count: /^/,
  keepalives_idle: /^/,
  keepalives_interval: /^/,
  krbsrvname: /^/,
  load_balance_hosts: /^/,
  sslcertmode: /^(disable|allow)$/,
  sslcompression: /^/,
  sslsni: /^/,
  ssl_min_protocol_version: /^TLSv1(\.[12])?$/,
  target_session_attrs: /^(any|primary|read-write)$/,
  tcp_user_timeout: /^/,
};

const SETTINGS_OF_SERVER = "a setting of the server goes into options=, such as options=-c%20jit%3Doff";

/** Returns why a parameter of an address cannot be used, without its value; undefined if all can. */
export function refuseParameters({ first }: DatabaseUrl): string | undefined {
  for (const [name, value] of first.searchParams) {
    const accepted = Object.hasOwn(ACCEPTED, name) ? ACCEPTED[name] : undefined;
    const what = /^\w{1,40}$/.test(name) ? `its parameter ${name}` : "one of its parameters";
    if (accepted === undefined) return `Claviger does not support ${what}: remove it; ${SETTINGS_OF_SERVER}`;
    if (!accepted.test(value)) return `Claviger does not support the value of ${what}: remove it`;
  }
  return undefined;
}

/** Returns the address of the first server with only those parameters that the driver needs. */
export function toDriverUrl({ first }: DatabaseUrl): string {
  const url = new URL(first);
  for (const name of first.searchParams.keys()) if (!OF_DRIVER.includes(name)) url.searchParams.delete(name);
  return url.href;
}
