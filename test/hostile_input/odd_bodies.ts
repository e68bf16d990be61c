/**
 * Bodies that no client library writes, with their answers. `odd_bodies_test.ts` sends each of them to every endpoint of
 * clients and to every route of operators, and the generators of requests draw from them.
 */

/** What the body of a right request has. */
export interface Right {
  /** The fields as JSON, each with a comma after it: `"api_key":"svc_live_…","event_type":"error",`. */
  readonly fields: string;
  /** The API key; empty in a request of operators. */
  readonly key: string;
}

/** Makes a body in Latin-1, in which each character is one byte. */
export type ToBytes = (right: Right) => string;

/** The most bytes that a body may have. */
export const BODY_LIMIT_BYTES = 64 * 1024;

const nested = (open: string, inside: string, close: string, times = 10_000) =>
  open.repeat(times) + inside + close.repeat(times);
const toUtf16 = (text: string) => Buffer.from(text, "utf16le").toString("latin1");

/** Returns an object of exactly so many bytes, without a right field. */
export const bodyOfBytes = (bytes: number) => `{"a":"${"x".repeat(bytes - '{"a":""}'.length)}"}`;

/** Bodies that are no JSON object in UTF-8: 400 `INVALID_REQUEST`. */
export const NO_OBJECTS: Readonly<Record<string, ToBytes>> = {
  "a blank": () => " ",
  "a line's end": () => "\n",
  null: () => "null",
  true: () => "true",
  "a number": () => "5",
  "10,000 digits": () => "1".repeat(10_000),
  "a text": () => '"text"',
  "an empty text": () => '""',
  "an array": () => "[]",
  "an array with a right object": ({ fields }) => `[{${fields}"x":1}]`,
  "an object without its end": () => "{",
  "the end of an object": () => "}",
  "an object with the end of an array": () => "{]",
  "two objects": ({ fields }) => `{${fields}"x":1}{}`,
  "a comma after the object": () => "{},",
  "a name without quotes": () => "{a:1}",
  "single quotes": () => "{'api_key':'a'}",
  "a name without a value": () => '{"api_key"}',
  "a colon without a value": () => '{"api_key":}',
  "the value undefined": () => '{"api_key":undefined}',
  "the value NaN": () => '{"api_key":NaN}',
  NUL: () => "\0",
  "NUL within a text": ({ fields }) => `{${fields}"x":"\0"}`,
  "a line's end within a text": ({ fields }) => `{${fields}"x":"\n"}`,
  "a byte that is not UTF-8 before the object": ({ fields }) => `\xff{${fields}"x":1}`,
  "UTF-16": ({ fields }) => toUtf16(`{${fields}"x":1}`),
  "UTF-16 with a byte order mark": ({ fields }) => toUtf16(`\ufeff{${fields}"x":1}`),
  "10,000 nested arrays": () => nested("[", "", "]"),
  "60,000 arrays without their ends": () => "[".repeat(60_000),
  "12,000 objects without their ends": () => '{"a":'.repeat(12_000),
  "10,000 arrays without their ends, after right fields": ({ fields }) =>
    `{${fields}"x":${"[".repeat(10_000)}`,
  "a form": ({ key }) => `api_key=${key}&email=a%40example.org&tier=free`,
  "a form of several parts": () => "--x\r\nContent-Disposition: form-data; name=api_key\r\n\r\na\r\n--x--",
  XML: () => "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
  "a request of HTTP": () => "GET /api/health HTTP/1.1\r\nHost: h\r\n\r\n",
};

/** Fields besides the right ones. Clients may send them; operators get 400 `INVALID_REQUEST` with the field's name. */
export const MORE_FIELDS: Readonly<Record<string, readonly [name: string, json: string]>> = {
  "an unknown field": ["colour", '"red"'],
  "the field __proto__": ["__proto__", '{"api_key":"a","isAdmin":true}'],
  "the field constructor": ["constructor", '{"prototype":{"isAdmin":true}}'],
  "the field toString": ["toString", "null"],
  "a number beyond the largest one": ["x", "1e400"],
  "bytes that are not UTF-8": ["x", '"\xc0\xaf"'],
  "half a surrogate pair in bytes": ["x", '"\xed\xa0\x80"'],
  "half an emoji in bytes": ["x", '"\xf0\x9f\x98"'],
  "10,000 nested objects": ["x", nested('{"a":', "1", "}")],
  "30,000 nested arrays": ["x", nested("[", "", "]", 30_000)],
};

/** Bodies with their keys in odd forms, which only clients send, and their answers. */
export const ODD_KEYS: Readonly<Record<string, readonly [toBytes: ToBytes, answer: string]>> = {
  nothing: [() => "", "400 MISSING_KEY"],
  "no field": [() => "{}", "400 MISSING_KEY"],
  "a key below __proto__": [({ key }) => `{"__proto__":{"api_key":"${key}"}}`, "400 MISSING_KEY"],
  "a key below constructor": [
    ({ key }) => `{"constructor":{"prototype":{"api_key":"${key}"}}}`,
    "400 MISSING_KEY",
  ],
  "null after a right key": [({ fields }) => `{${fields}"api_key":null}`, "400 MISSING_KEY"],
  "a malformed key after a right one": [({ fields }) => `{${fields}"api_key":"a"}`, "400 INVALID_FORMAT"],
  "a right key after a malformed one": [({ fields }) => `{"api_key":"a",${fields}"x":1}`, "accepted"],
  "a right key with escapes": [
    ({ fields, key }) => `{${fields}"\\u0061pi_key":"\\u0073${key.slice(1)}"}`,
    "accepted",
  ],
  "white space around everything": [
    ({ fields, key }) => `\r\n\t {${fields} "api_key" :\t"${key}"} \n`,
    "accepted",
  ],
  "__proto__ as the key": [({ fields }) => `{${fields}"api_key":"__proto__"}`, "400 INVALID_FORMAT"],
  "1e400 as the key": [({ fields }) => `{${fields}"api_key":1e400}`, "400 INVALID_FORMAT"],
  "10,000 nested arrays as the key": [
    ({ fields }) => `{${fields}"api_key":${nested("[", "", "]")}}`,
    "400 INVALID_FORMAT",
  ],
  "NUL after the key": [({ fields, key }) => `{${fields}"api_key":"${key}\\u0000"}`, "400 INVALID_FORMAT"],
  "half a surrogate pair after the key": [
    ({ fields, key }) => `{${fields}"api_key":"${key}\\ud800"}`,
    "400 INVALID_FORMAT",
  ],
  "a byte that is not UTF-8 after the key": [
    ({ fields, key }) => `{${fields}"api_key":"${key}\xff"}`,
    "400 INVALID_FORMAT",
  ],
  "a byte that is not UTF-8 as the last one of the key": [
    ({ fields, key }) => `{${fields}"api_key":"${key.slice(0, -1)}\xff"}`,
    "400 INVALID_FORMAT",
  ],
};

/** Every odd body by its name, for the generators. */
export const ODD_BODIES: Readonly<Record<string, ToBytes>> = {
  ...NO_OBJECTS,
  ...mapValues(
    MORE_FIELDS,
    ([name, json]): ToBytes =>
      ({ fields }) =>
        `{${fields}"${name}":${json}}`,
  ),
  ...mapValues(ODD_KEYS, ([toBytes]) => toBytes),
  "a byte order mark before the object": ({ fields }) => `\xef\xbb\xbf{${fields}"x":1}`,
  "as many bytes as allowed": () => bodyOfBytes(BODY_LIMIT_BYTES),
  "a byte more than allowed": () => bodyOfBytes(BODY_LIMIT_BYTES + 1),
  "70,000 bytes": () => "x".repeat(70_000),
};

/** What the service says of a `Content-Encoding`. */
export const ENCODINGS: Readonly<Record<string, "accepted" | "415 UNSUPPORTED_MEDIA_TYPE">> = {
  identity: "accepted",
  Identity: "accepted",
  "": "accepted",
  gzip: "415 UNSUPPORTED_MEDIA_TYPE",
  br: "415 UNSUPPORTED_MEDIA_TYPE",
  deflate: "415 UNSUPPORTED_MEDIA_TYPE",
  zstd: "415 UNSUPPORTED_MEDIA_TYPE",
  "x-unknown": "415 UNSUPPORTED_MEDIA_TYPE",
  "gzip, identity": "415 UNSUPPORTED_MEDIA_TYPE",
  "identity, gzip": "415 UNSUPPORTED_MEDIA_TYPE",
};

/** Content types. The service ignores them. */
export const CONTENT_TYPES = [
  "application/x-www-form-urlencoded",
  "text/plain; charset=utf-16",
  "multipart/form-data; boundary=x",
  "nonsense",
];

function mapValues<From, To>(of: Readonly<Record<string, From>>, toValue: (value: From) => To) {
  return Object.fromEntries(Object.entries(of).map(([name, value]) => [name, toValue(value)]));
}
