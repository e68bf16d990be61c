/** The rules of settings: the allowed values in words, and how the text of a setting is read. */

import { isLoopback } from "../../base/listener_url.ts";
import type { LogRequests } from "../../base/log.ts";
import { parseTrustedProxies, type TrustedProxies } from "../../base/rate_limits/mod.ts";
import { CERTIFICATES_LIMIT_BYTES } from "../../base/read_regular_file.ts";
import { oneOf, type ParsingRule } from "../../base/rule.ts";
import { parseDatabaseTls, parseDatabaseUrl } from "../../database/mod.ts";
import { type OfflineDays, TIERS, type Tier } from "../../licensing/mod.ts";
import { readBounded } from "./bounded_file.ts";
import { SettingError } from "./setting_error.ts";

/** The rule for a setting. Its `parse` throws a {@linkcode SettingError} for a reason of its own. */
export interface SettingRule<Value> extends ParsingRule<Value> {
  /** What a refusal says after the allowed values. By default it repeats the wrong text: a rule for a secret must not. */
  readonly ending?: (text: string) => string;
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Accepts every text: the code that uses the setting checks it. */
export function anyText(expects: string): SettingRule<string> {
  return { expects, parse: (text) => text };
}

export const LOG_REQUESTS: SettingRule<LogRequests> = {
  expects: "sampled, all, off, or 1/N for one in N (up to 1000000)",
  parse(text) {
    const [, every] = /^1\/([1-9]\d{0,6})$/.exec(text) ?? [];
    if (every !== undefined && Number(every) <= 1_000_000) return `1/${Number(every)}`;
    return oneOf(["sampled", "all", "off"]).parse(text);
  },
};

/** Returns the rule for an address such as `127.0.0.1:9090` or `[::1]:9090`; `port` is that of the example. */
export function listenAddress(port: number): SettingRule<ListenAddress> {
  return {
    expects: `HOST:PORT, such as 127.0.0.1:${port} or [::1]:${port}`,
    parse(text) {
      const [, inner, plain, digits] =
        /^(?:\[([\dA-Fa-f:.%]{2,60})\]|([\w.-]{1,255})):(\d{1,5})$/.exec(text) ?? [];
      const host = inner ?? plain;
      return host === undefined || Number(digits) > 65_535 ? undefined : { host, port: Number(digits) };
    },
  };
}

export const MODEL_TYPES: SettingRule<readonly string[]> = {
  expects: "1 to 20 names separated by commas, each of 1 to 64 letters and digits",
  parse(text) {
    const types = text.split(",").map((type) => type.trim());
    const isRight = types.length <= 20 && types.every((type) => /^[A-Za-z0-9]{1,64}$/.test(type));
    return isRight ? types : undefined;
  },
};

export const TRUSTED_PROXIES: SettingRule<TrustedProxies> = {
  expects: "addresses and networks (CIDR) separated by commas",
  parse(text) {
    const parsed = parseTrustedProxies(text);
    return parsed.ok ? parsed.proxies : undefined;
  },
  ending(text) {
    const parsed = parseTrustedProxies(text);
    return parsed.ok ? "" : `: ${parsed.error}`;
  },
};

export const USUAL_OFFLINE_DAYS = "free=1,research=7,commercial=14,enterprise=30";

/** Days by tier, such as `free=0,enterprise=60`. */
export const OFFLINE_DAYS: SettingRule<OfflineDays> = {
  expects:
    "tiers with days from 0 to 3650, such as free=0,enterprise=60; a tier that is left out keeps its default",
  parse(text) {
    const given = parseDays(text);
    return given && (Object.fromEntries([...(parseDays(USUAL_OFFLINE_DAYS) ?? []), ...given]) as OfflineDays);
  },
};

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

/** The most numbers in a list of numbers. */
const MOST_NUMBERS = 5;

/** The rule for the days before an end at which there are notices; the value has the most days first. */
export const NOTICE_DAYS: SettingRule<readonly number[]> = {
  expects: `1 to ${MOST_NUMBERS} different numbers of days from 1 to 365, separated by commas, such as 30,7,1`,
  parse: (text) => parseNumbers(text, 365)?.toReversed(),
};

/** The rule for the shares of a quota at which there are notices; the value has the lowest one first. */
export const NOTICE_SHARES: SettingRule<readonly number[]> = {
  expects: `1 to ${MOST_NUMBERS} different percentages from 1 to 100, separated by commas, such as 80,100`,
  parse: (text) => parseNumbers(text, 100),
};

/** Parses different numbers from 1 to `most`, and sorts them. */
function parseNumbers(text: string, most: number): number[] | undefined {
  const parts = text.split(",").map((part) => part.trim());
  const numbers = parts.map(Number);
  const isRight = parts.every((part) => /^[1-9]\d{0,2}$/.test(part)) && numbers.every((one) => one <= most);
  if (!isRight || numbers.length > MOST_NUMBERS || new Set(numbers).size < numbers.length) return undefined;
  return numbers.sort((a, b) => a - b);
}

export const DATABASE_URL: SettingRule<string> = {
  expects: "a postgres:// address with a host, such as postgres://user:password@host:5432/claviger",
  parse(text) {
    const url = parseDatabaseUrl(text);
    if (url === undefined || !isDecodable(url.first)) return undefined;
    const cannot = (why: string) => new SettingError(`Cannot use DATABASE_URL: ${why}`, "DATABASE_URL");
    const tls = parseDatabaseTls(url);
    if (typeof tls === "string") throw cannot(tls);
    const { rootCertFile: file } = tls;
    if (file === undefined) return text;
    const certificates = readBounded(file, "sslrootcert of DATABASE_URL", CERTIFICATES_LIMIT_BYTES);
    if (certificates.includes("-----BEGIN CERTIFICATE-----")) return text;
    throw cannot(`there is no certificate in PEM form in its sslrootcert ${file}`);
  },
  ending: () => "; write special characters in the password percent-encoded, such as %23 for #",
};

/** Returns false for a percent sign that does not begin an encoded character: the driver would throw on it. */
function isDecodable({ username, password, pathname }: URL): boolean {
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}

/** The value is the address without a slash at its end. */
export const PUBLIC_URL: SettingRule<string> = {
  expects:
    "the http or https address under which clients reach the service, such as https://licenses.example.org",
  parse: (text) =>
    /^https?:\/\/[^\s@?#\\]{1,500}$/i.test(text) ? URL.parse(text)?.href.replace(/\/+$/, "") : undefined,
  ending: () => ", without user, query and fragment",
};

/** The value is an origin, such as `https://admin.example.org`. */
export const ADMIN_URL: SettingRule<string> = {
  expects:
    "an https:// address without user, path, query or fragment, such as https://admin.example.org (http:// only for a loopback address)",
  // A path could not be kept: cookies and the check of `Host` know only the host.
  parse: (text) => (/^https?:\/\/[^\s/?#@\\]{1,255}\/?$/i.test(text) ? parseSafe(text)?.origin : undefined),
  ending: () => "",
};

/** The value is the address without a slash at its end. */
export const API_URL: SettingRule<string> = {
  expects: "an https:// address without user, query or fragment (http:// only for a loopback address)",
  parse(text) {
    const url = parseSafe(text);
    const isPlain = url?.username === "" && url.password === "" && !/[?#\s]/.test(text);
    return isPlain ? url.href.replace(/\/+$/, "") : undefined;
  },
  ending: () => "",
};

/** The value stays as it was written, because OpenID Connect compares issuers as texts. */
export const ISSUER_URL: SettingRule<string> = {
  ...API_URL,
  parse: (text) => (API_URL.parse(text) === undefined ? undefined : text),
};

/** The value is the address without a slash at its end. Nothing in it needs to be encoded. */
export const BUCKET_URL: SettingRule<string> = {
  expects:
    "https://HOST/BUCKET or https://HOST/BUCKET/PREFIX, of letters, digits and . _ - (http:// only for a loopback address)",
  parse(text) {
    const isPlain = /^https?:\/\/[^\s/?#@\\]{1,255}(\/(?!\.\.?\/)[\w.-]{1,200}){1,10}$/i.test(
      `${text.replace(/\/$/, "")}`,
    );
    return isPlain ? parseSafe(text)?.href.replace(/\/$/, "") : undefined;
  },
  ending: () => "",
};

/** Parses an address to which secrets may be sent: https, or http within this machine. */
function parseSafe(text: string): URL | undefined {
  const url = URL.parse(text);
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url.hostname));
  return isSafe ? url : undefined;
}
