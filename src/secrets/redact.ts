/**
 * Blanks keys in text that is about to be kept: reasons in the audit log, addresses in the access log, texts
 * of events.
 *
 * Free text loses whatever looks like a key. An address goes by a stricter rule, since its query is
 * where clients put keys: a value is shown only for parameters that are known to be harmless, and only
 * when it is plain. What is not understood is not shown.
 */

/**
 * A brand, `live` or `test`, and at least 8 hexadecimal digits; or a bare run of at least 40 of them.
 * The brand is bounded to keep the search linear; of a longer one the front stays, which tells nothing.
 */
const keyLike = /[a-z0-9]{0,32}_(?:live|test)_[0-9a-f]{8,}|[0-9a-f]{40,}/gi;

/**
 * The same, but of bare runs only those that are as long as a key's digits or a little longer, as if something
 * were stuck to it: 40 digits and those of 56 or more are checksums. And a quick look for whether there is any.
 */
const keyInEvent = /[a-z0-9]{0,32}_(?:live|test)_[0-9a-f]{8,}|(?<![0-9a-f])[0-9a-f]{48,55}(?![0-9a-f])/gi;
const anyKeyInEvent = /_(?:live|test)_[0-9a-f]{8}|[0-9a-f]{48}/i;

/** Query parameters whose values may be seen. */
const shownParameters: ReadonlySet<string> = new Set(["paradigm", "type"]);

const plainName = /^[\w.-]{1,64}$/;
const plainValue = /^[\w.-]{0,64}$/;
const HIDDEN = "[hidden]";
const UNREADABLE = "[unreadable]";
const maxPathLength = 1024;
const maxQueryLength = 4096;
const maxDecodings = 3;

/** Replaces whatever looks like an API key, of any brand and case, whole or cut short, by `[key]`. */
export function redactKeys(text: string): string {
  return text.replace(keyLike, "[key]");
}

/**
 * Replaces keys by `[key]` in what clients tell of their own work, and leaves checksums: a key that stands there
 * by name, whole or cut short, or its 48 digits alone. For texts, not for JSON: see {@linkcode renderWithoutKeys}.
 */
export function redactKeysInEvent(text: string): string {
  return anyKeyInEvent.test(text) ? text.replace(keyInEvent, "[key]") : text;
}

/**
 * Renders parsed JSON with every text and property name passed through {@linkcode redactKeysInEvent}. Of
 * properties whose names become equal the last one is kept.
 *
 * JSON itself must not be passed through it: the letter of an escape such as `\n` looks like the front of the
 * brand that follows, or like one more digit. But a key in a text stands in the JSON as it is, so a value is
 * walked only where its JSON seems to hold one.
 */
export function renderWithoutKeys(value: unknown): string {
  const json = JSON.stringify(value);
  return anyKeyInEvent.test(json) ? JSON.stringify(withoutKeys(value)) : json;
}

function withoutKeys(value: unknown): unknown {
  if (typeof value === "string") return redactKeysInEvent(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutKeys);
  // Makes `__proto__` a property like others, which an assignment would not.
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [redactKeysInEvent(name), withoutKeys(field)]),
  );
}

/**
 * Renders a path with its query, as it came in the request, so that it can be logged:
 * `/v1/models/list?api_key=x&type=SvcLDA` gives `/v1/models/list?api_key=[hidden]&type=SvcLDA`.
 *
 * Names and values are judged as the server would decode them. A path that is not one, cannot be
 * decoded or has more than 1,024 characters gives `[unreadable]`; a query of more than 4,096 is hidden
 * as a whole.
 */
export function redactQuery(pathAndQuery: string): string {
  const mark = pathAndQuery.indexOf("?");
  const path = redactPath(mark === -1 ? pathAndQuery : pathAndQuery.slice(0, mark));
  if (path === undefined) return UNREADABLE;
  if (mark === -1) return path;
  const query = pathAndQuery.slice(mark + 1);
  if (query.length > maxQueryLength) return `${path}?${HIDDEN}`;
  return `${path}?${query.split("&").map(redactParameter).join("&")}`;
}

function redactPath(path: string): string | undefined {
  if (!path.startsWith("/") || path.length > maxPathLength) return undefined;
  const decoded = decodeFully(path);
  if (decoded === undefined) return undefined;
  const redacted = redactKeys(decoded);
  return redacted === decoded ? path : redacted;
}

function redactParameter(pair: string): string {
  if (pair === "") return "";
  const equals = pair.indexOf("=");
  const name = equals === -1 ? undefined : decodeForm(pair.slice(0, equals));
  if (name === undefined || !plainName.test(name)) return HIDDEN;
  const value = decodeForm(pair.slice(equals + 1));
  const isShown = shownParameters.has(name) && value !== undefined && plainValue.test(value);
  return `${redactKeys(name)}=${isShown ? redactKeys(value) : HIDDEN}`;
}

/** Decodes until nothing changes, so that a key encoded twice is seen; undefined where it cannot be. */
function decodeFully(text: string): string | undefined {
  let decoded = text;
  for (let i = 0; i < maxDecodings; i++) {
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
