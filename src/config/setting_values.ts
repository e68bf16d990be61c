/** Readers of setting values. Each throws an error with the allowed values if the value is not allowed. */
import { type DatabaseUrl, parseDatabaseTls, parseDatabaseUrl } from "../database/mod.ts";
import { isLoopback } from "../endpoints.ts";
import { type OfflineDays, TIERS, type Tier } from "../licensing/mod.ts";
import type { LogRequests } from "../log.ts";
import { CERTIFICATES_LIMIT_BYTES } from "../read_regular_file.ts";
import { demand, SettingError, settingOf, wrong } from "./setting_error.ts";
import { readBounded } from "./settings_file.ts";

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

export type Get = (name: string) => string;

/** Reads a value that must match a pattern. */
export function matching(get: Get, name: string, pattern: RegExp): string {
  const value = get(name);
  if (!pattern.test(value)) throw wrong(name, value);
  return value;
}

/** Reads a whole number from `min` to `max`. */
export function wholeNumber(get: Get, name: string, max: number, min = 0): number {
  const value = get(name);
  if (!/^\d{1,10}$/.test(value) || Number(value) > max || Number(value) < min) throw wrong(name, value);
  return Number(value);
}

/** Reads the host of the listener for clients. */
export function readHost(get: Get): string {
  return matching(get, "CLAVIGER_HOST", /^[A-Za-z0-9.:_%-]{1,255}$/);
}

/** Reads the port of the listener for clients. */
export function readPort(get: Get): number {
  return wholeNumber(get, "CLAVIGER_PORT", 65_535);
}

/** Reads which requests the log has: `sampled`, `all`, `off`, or a share such as `1/100`. */
export function readLogRequests(get: Get): LogRequests {
  const value = get("CLAVIGER_LOG_REQUESTS");
  const [, every] = /^1\/([1-9]\d{0,6})$/.exec(value) ?? [];
  if (every !== undefined && Number(every) <= 1_000_000) return `1/${Number(every)}`;
  return oneOf(get, "CLAVIGER_LOG_REQUESTS", ["sampled", "all", "off"]);
}

/** Reads an address such as `127.0.0.1:9090` or `[::1]:9090`; undefined if it is not set. */
export function readListenAddress(get: Get, name: string): ListenAddress | undefined {
  const value = get(name);
  if (value === "") return undefined;
  const [, inner, plain, port] =
    /^(?:\[([\dA-Fa-f:.%]{2,60})\]|([\w.-]{1,255})):(\d{1,5})$/.exec(value) ?? [];
  const host = inner ?? plain;
  if (host === undefined || Number(port) > 65_535) throw wrong(name, value);
  return { host, port: Number(port) };
}

/** Reads days by tier, such as `free=0,enterprise=60`. A tier that is left out keeps its default. */
export function readOfflineDays(get: Get): OfflineDays {
  const name = "CLAVIGER_OFFLINE_DAYS";
  const value = get(name);
  const given = parseDays(value);
  if (given === undefined) throw wrong(name, value);
  return Object.fromEntries([...(parseDays(settingOf(name).default) ?? []), ...given]) as OfflineDays;
}

function parseDays(text: string): [Tier, number][] | undefined {
  const entries = text.split(",").map((entry) => /^([a-z]+)=(\d{1,4})$/.exec(entry.trim()));
  const days: [Tier, number][] = [];
  for (const entry of entries) {
    const tier = TIERS.find((known) => known === entry?.[1]);
    const count = Number(entry?.[2]);
    if (tier === undefined || count > 3_650 || days.some(([other]) => other === tier)) return undefined;
    days.push([tier, count]);
  }
  return days;
}

/** Reads a value that must be one of the allowed ones. */
export function oneOf<const Value extends string>(get: Get, name: string, allowed: readonly Value[]): Value {
  const value = get(name);
  const found = allowed.find((candidate) => candidate === value);
  if (found === undefined) throw wrong(name, value);
  return found;
}

/** Checks the address of the database. The address may hold a password, so the error does not repeat it. */
export function readDatabaseUrl(text: string): string | undefined {
  if (text === "") return undefined;
  const url = parseDatabaseUrl(text);
  if (url === undefined || !isDecodable(url.first)) {
    throw new SettingError(
      `${demand("DATABASE_URL")}; write special characters in the password percent-encoded, such as %23 for #`,
      "DATABASE_URL",
    );
  }
  checkDatabaseTls(url);
  return text;
}

function checkDatabaseTls(url: DatabaseUrl): void {
  const cannot = (why: string) => new SettingError(`Cannot use DATABASE_URL: ${why}`, "DATABASE_URL");
  const tls = parseDatabaseTls(url);
  if (typeof tls === "string") throw cannot(tls);
  if (tls.rootCertFile === undefined) return;
  const text = readBounded(tls.rootCertFile, "sslrootcert of DATABASE_URL", CERTIFICATES_LIMIT_BYTES);
  if (!text.includes("-----BEGIN CERTIFICATE-----")) {
    throw cannot(`there is no certificate in PEM form in its sslrootcert ${tls.rootCertFile}`);
  }
}

/** Returns false for a percent sign that does not begin an encoded character: the driver would throw on it. */
function isDecodable({ username, password, pathname }: URL): boolean {
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/** Reads the address under which clients reach the service, without a slash at its end; undefined if it is not set. */
export function readPublicUrl(text: string): string | undefined {
  if (text === "") return undefined;
  // The error does not repeat the address: its user, password or query may hold a secret.
  if (!/^https?:\/\/[^\s@?#\\]{1,500}$/i.test(text) || !URL.canParse(text)) {
    throw new SettingError(
      `${demand("CLAVIGER_PUBLIC_URL")}, without user, query and fragment`,
      "CLAVIGER_PUBLIC_URL",
    );
  }
  return new URL(text).href.replace(/\/+$/, "");
}

/** Reads the address of the console and of the API for operators as an origin, such as `https://admin.example.org`. */
export function readAdminUrl(text: string): string | undefined {
  if (text === "") return undefined;
  const url = URL.parse(text);
  // A path could not be kept: cookies and the check of `Host` know only the host.
  if (!isSafe(url) || !/^https?:\/\/[^\s/?#@\\]{1,255}\/?$/i.test(text)) {
    throw new SettingError(demand("CLAVIGER_ADMIN_URL"), "CLAVIGER_ADMIN_URL");
  }
  return url.origin;
}

/** Returns whether an address is safe to send secrets to: it is https, or http within this machine. */
function isSafe(url: URL | null): url is URL {
  return url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url.hostname));
}

/** Checks the address of the GitHub API. A wrong address may hold a secret, so the error does not repeat it. */
export function readApiUrl(text: string): string {
  const url = URL.parse(text);
  if (!isSafe(url) || url.username + url.password !== "" || /[?#\s]/.test(text)) {
    throw new SettingError(demand("CLAVIGER_GITHUB_URL"), "CLAVIGER_GITHUB_URL");
  }
  return url.href.replace(/\/+$/, "");
}
