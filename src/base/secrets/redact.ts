/**
 * Removes keys from text before it is stored: reasons in the audit log, addresses in the access log, texts
 * of events.
 *
 * In free text everything that looks like a key is replaced. For an address the rule is stricter, because
 * clients put keys into the query: a value is shown only for parameters that are known to be harmless, and
 * only when the value is plain. An address that cannot be parsed is not shown.
 */

/** A key and a token have so many hexadecimal digits after their prefix. */
export const KEY_DIGITS = 48;
/** The last word of the prefix of a key, or of a token. */
export const KEY_KINDS = "live|test|op";
/** A text with a prefix, and at least so many hexadecimal digits behind it, looks like a key. */
export const KEY_LIKE_DIGITS = 8;
/** So do so many digits alone. */
const DIGITS_ALONE = 40;

/**
 * Matches a brand, `live`, `test` or the `op` of tokens, and hexadecimal digits; or more digits alone.
 * The length of the brand is bounded to keep the search linear; the front of a longer brand stays in the text
 * and reveals nothing.
 */
const KEY_LIKE = new RegExp(
  `[a-z0-9]{0,32}_(?:${KEY_KINDS})_[0-9a-f]{${KEY_LIKE_DIGITS},}|[0-9a-f]{${DIGITS_ALONE},}`,
  "gi",
);

/** The same for a browser: the pattern of a field for texts that do not look like a key. */
export const NO_KEY_PATTERN = `(?!.*_(${KEY_KINDS})_[0-9a-fA-F]{${KEY_LIKE_DIGITS}})(?!.*[0-9a-fA-F]{${DIGITS_ALONE}}).*`;

/** The digits of a whole key alone, or a few more: 40 digits and 56 or more are checksums. */
const DIGITS_OF_KEY = "(?<![0-9a-f])[0-9a-f]{48,55}(?![0-9a-f])";

/**
 * The same for events, but of bare digits only {@linkcode DIGITS_OF_KEY}. The second pattern quickly tells whether a text
 * can contain a key.
 */
const KEY_IN_EVENT = new RegExp(`[a-z0-9]{0,32}_(?:live|test)_[0-9a-f]{8,}|${DIGITS_OF_KEY}`, "gi");
const ANY_KEY_IN_EVENT = /_(?:live|test)_[0-9a-f]{8}|[0-9a-f]{48}/i;

const KEY_IN_NAME = new RegExp(`_(?:${KEY_KINDS})_[0-9a-f]{16}|${DIGITS_OF_KEY}`, "i");

/** Query parameters whose values may be shown. */
const SHOWN_PARAMETERS: ReadonlySet<string> = new Set(["paradigm", "type"]);

const PLAIN_NAME = /^[\w.-]{1,64}$/;
const PLAIN_VALUE = /^[\w.-]{0,64}$/;
const HIDDEN = "[hidden]";
const UNREADABLE = "[unreadable]";
const MAX_PATH_LENGTH = 1024;
const MAX_QUERY_LENGTH = 4096;
const MAX_DECODINGS = 3;

/**
 * Replaces everything that looks like an API key or a token, of any brand and case, whole or cut, with `[key]`.
 *
 * @example
 * ```ts
 * redactKeys("The key svc_live_0123456789abcdef does not work"); // "The key [key] does not work"
 * ```
 */
export function redactKeys(text: string): string {
  return text.replace(KEY_LIKE, "[key]");
}

/**
 * Codes, and tokens without a known prefix, have at least this many hexadecimal digits; people group them. One of them is
 * a letter: the numbers of orders have none.
 */
const DIGITS = /(?<![a-z0-9])(?=(?:[\s-]*\d){0,15}[\s-]*[a-f])[0-9a-f](?:[\s-]*[0-9a-f]){15}/i;
/** A long word with letters and digits that is no part of an e-mail address. */
const OPAQUE = /(?<![\w+/=.~:@-])(?=[\w+/=.~:-]*[a-z])(?=[\w+/=.~:-]*\d)[\w+/=.~:-]{24,}(?![\w+/=.~:@-])/i;
/** An id, a UUID, which other systems use as external id, and a day in the number of an order. */
const HARMLESS =
  /(?<![a-z0-9_])(?:[a-z]{3}_[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|20\d\d-?[01]\d-?[0-3]\d)(?![0-9a-z])/gi;

/**
 * Tells whether a text may contain a key, a token or a code, whole or cut, so that it must not be in an address. In
 * doubt it may: a long word with letters and digits is enough.
 */
export function mayBeSecret(text: string): boolean {
  // Without characters that nobody sees, and with plain digits in place of those of other widths.
  const plain = text.normalize("NFKC").replace(/\p{C}/gu, "").replace(HARMLESS, "");
  return redactKeys(plain) !== plain || [DIGITS, OPAQUE].some((form) => form.test(plain));
}

/**
 * Replaces keys with `[key]` in texts of events: a key with its prefix, whole or cut, or its 48 digits alone.
 * Checksums stay. For texts, not for JSON: see {@linkcode renderWithoutKeys}.
 */
export function redactKeysInEvent(text: string): string {
  return ANY_KEY_IN_EVENT.test(text) ? text.replace(KEY_IN_EVENT, "[key]") : text;
}

/**
 * Tells whether a text has a key or a token, also one that is encoded for an address: the end of a prefix with at least 16
 * digits, or the digits of a whole key. It is for names that people choose: `erp_test_20261129` and checksums are no keys.
 */
export function hasKey(text: string): boolean {
  return [text, decodeFully(text) ?? ""].some((each) => KEY_IN_NAME.test(each));
}

/**
 * Renders parsed JSON after {@linkcode redactKeysInEvent} was applied to every text and property name. If names
 * become equal, the last property is kept.
 *
 * The function must not be applied to JSON text: the letter of an escape such as `\n` looks like the start of
 * the brand that follows, or like one more digit. A key in a text is unchanged in the JSON, so a value is walked
 * only if its JSON seems to contain a key.
 */
export function renderWithoutKeys(value: unknown): string {
  const json = JSON.stringify(value);
  return ANY_KEY_IN_EVENT.test(json) ? JSON.stringify(withoutKeys(value)) : json;
}

function withoutKeys(value: unknown): unknown {
  if (typeof value === "string") return redactKeysInEvent(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutKeys);
  // Defines `__proto__` as an ordinary property; an assignment would set the prototype.
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [redactKeysInEvent(name), withoutKeys(field)]),
  );
}

/**
 * Renders the path and query of a request for the log: `/v1/models/list?api_key=x&type=SvcLDA` becomes
 * `/v1/models/list?api_key=[hidden]&type=SvcLDA`.
 *
 * Names and values are decoded first, as the server decodes them. The result is `[unreadable]` for a text that
 * is not a path, cannot be decoded, or has more than 1,024 characters. A query of more than 4,096 characters is
 * hidden as a whole.
 */
export function redactQuery(pathAndQuery: string): string {
  const mark = pathAndQuery.indexOf("?");
  const path = redactPath(mark === -1 ? pathAndQuery : pathAndQuery.slice(0, mark));
  if (path === undefined) return UNREADABLE;
  if (mark === -1) return path;
  const query = pathAndQuery.slice(mark + 1);
  if (query.length > MAX_QUERY_LENGTH) return `${path}?${HIDDEN}`;
  return `${path}?${query.split("&").map(redactParameter).join("&")}`;
}

function redactPath(path: string): string | undefined {
  if (!path.startsWith("/") || path.length > MAX_PATH_LENGTH) return undefined;
  const decoded = decodeFully(path);
  if (decoded === undefined) return undefined;
  const redacted = redactKeys(decoded);
  return redacted === decoded ? path : redacted;
}

function redactParameter(pair: string): string {
  if (pair === "") return "";
  const equals = pair.indexOf("=");
  const name = equals === -1 ? undefined : decodeForm(pair.slice(0, equals));
  if (name === undefined || !PLAIN_NAME.test(name)) return HIDDEN;
  const value = decodeForm(pair.slice(equals + 1));
  const isShown = SHOWN_PARAMETERS.has(name) && value !== undefined && PLAIN_VALUE.test(value);
  return `${redactKeys(name)}=${isShown ? redactKeys(value) : HIDDEN}`;
}

/** Decodes until nothing changes, so that a key that was encoded twice is found; undefined if that fails. */
function decodeFully(text: string): string | undefined {
  let decoded = text;
  for (let i = 0; i < MAX_DECODINGS; i++) {
    const next = decode(decoded);
    if (next === undefined || next === decoded) return next;
    decoded = next;
  }
  return undefined;
}

function decodeForm(text: string): string | undefined {
  return decode(text.replaceAll("+", " "));
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
