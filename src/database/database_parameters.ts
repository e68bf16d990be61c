/**
 * Tells which parameters `DATABASE_URL` may have. The names are libpq's
 * (https://www.postgresql.org/docs/18/libpq-connect.html). The driver would send any other parameter to the server as a
 * setting. A server refuses the connection if it does not know the setting, such as `schema`, which the addresses of other
 * programs have.
 */
import type { DatabaseUrl } from "./database_url.ts";

/** The parameters that the driver needs: settings of the session, and how TLS begins. */
const OF_DRIVER = ["application_name", "options", "sslnegotiation"];

/** For a parameter of which every value is accepted. */
const ANY = /^/;

/**
 * The parameters that Claviger accepts, each with its accepted values. Those that the driver does not need have no effect. So
 * their accepted values ask only for what Claviger does anyway: it has deadlines of its own, looks for the primary, and never
 * uses GSSAPI.
 */
const ACCEPTED: Readonly<Record<string, RegExp>> = {
  ...Object.fromEntries(OF_DRIVER.map((name) => [name, ANY])),
  ssl: ANY,
  sslmode: ANY,
  sslrootcert: ANY,
  // `require` needs a verified server: see `database_tls.ts`.
  channel_binding: /^(disable|prefer|require)$/,
  client_encoding: /^(auto|utf-?8)$/i,
  connect_timeout: ANY,
  fallback_application_name: ANY,
  gssdelegation: /^0$/,
  gssencmode: /^(disable|prefer)$/,
  gsslib: ANY,
  keepalives: ANY,
  keepalives_count: ANY,
  keepalives_idle: ANY,
  keepalives_interval: ANY,
  krbsrvname: ANY,
  load_balance_hosts: ANY,
  sslcertmode: /^(disable|allow)$/,
  sslcompression: ANY,
  sslsni: ANY,
  ssl_min_protocol_version: /^TLSv1(\.[12])?$/,
  target_session_attrs: /^(any|primary|read-write)$/,
  tcp_user_timeout: ANY,
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
