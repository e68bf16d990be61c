/** Each value has one rule: every door accepts the same texts, and refuses the others with the same sentence. */
import { beforeAll, describe, expect, test } from "bun:test";
import { isRefusal } from "../../src/base/refusal.ts";
import { readImportFile } from "../../src/cli/import_file.ts";
import { generateApiKey } from "../../src/licensing/keys/mod.ts";
import { generateToken } from "../../src/operators/tokens.ts";
import { dumpText } from "../support/dump.ts";
import { BRAND } from "../support/issue.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { newIdempotencyKey } from "./sample_requests.ts";

const admin = useAdmin();
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));
const client = createConsoleClient(admin);
let cookie: string;
let accountId: string;
let keyId: string;
let licenseId: string;

beforeAll(async () => {
  ({ cookie } = await client.logIn());
  const issued = await admin.issue({ email: "rules@example.org" });
  accountId = issued.userId;
  keyId = issued.id;
  licenseId = (await admin.call("GET", `/keys/${keyId}`)).body.license_id;
});

/** Sends the text in a field. Returns "accepted", or the sentence of the refusal after the name of the field. */
type Door = (field: string, text: string) => Promise<string>;

const DIGITS = "0123456789abcdef".repeat(3);

/** Returns the sentence of a refusal, which does not repeat a key. */
function refusalIn(answer: string): string {
  expect(answer).not.toContain(DIGITS);
  return sentenceIn(answer);
}

/** Finds the sentence in an answer, without the name of the field and without the reference to the help of a command. */
function sentenceIn(answer: string): string {
  const plain = answer.replaceAll("&#39;", "'").replaceAll("&quot;", '"');
  // That another license has the text already is no refusal of the text.
  if (plain.includes("another license has this external id")) return "accepted";
  const sentence = /(?:[Ii]t|\b[a-z_]+) (must [^\n<"]*)|the (expiry [^\n<";]*)/.exec(plain);
  return (sentence?.[1] ?? sentence?.[2])?.replace(/; see .*$/, "") ?? plain;
}

async function command(args: readonly string[], input?: string): Promise<string> {
  const { status, err } = await commands.run(args, input === undefined ? {} : { input });
  return status === 0 ? "accepted" : refusalIn(err);
}

async function call(
  method: string,
  path: string,
  sent: Parameters<typeof admin.call>[2] = {},
): Promise<string> {
  const { status, body } = await admin.call(method, path, sent);
  return status < 300 ? "accepted" : refusalIn(body.details?.[0]?.error ?? JSON.stringify(body));
}

/** A form shows the entered text again, to the operator alone. */
async function page(path: string, form?: Record<string, string>): Promise<string> {
  const { status, text } = await client.send(path, { cookie, ...(form && { form }) });
  if (status < 400) return "accepted";
  return sentenceIn(/<p class="error"[^>]*>([^<]*)/.exec(text)?.[1] ?? text);
}

async function importOf(content: string): Promise<string> {
  async function* input() {
    yield new TextEncoder().encode(content);
  }
  const read = await readImportFile({ workingFolder: "/", input: input() }, "-", BRAND);
  return isRefusal(read) ? refusalIn(read.sentence) : "accepted";
}

let made = 0;
const newKey = () => ({ email: `rules-${++made}@example.org`, tier: "free" as const });
/** Returns the field with those without which no text is right: seat minutes need a machine limit. */
const fieldsOf = (field: string, text: string): Readonly<Record<string, string>> => ({
  ...(field === "seat_minutes" && { max_machines: "3" }),
  [field]: text,
});
const optionsOf = (fields: object) =>
  Object.entries(fields).map(([name, value]) => `--${name.replaceAll("_", "-")}=${value}`);
const NUMBERS = ["monthly_limit", "max_machines", "seat_minutes", "n_features", "n_classes", "size_mb"];
/** In JSON a number is no text. */
const toJson = (field: string, text: string) =>
  NUMBERS.includes(field) && /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
const bodyOf = (field: string, text: string) =>
  Object.fromEntries(Object.entries(fieldsOf(field, text)).map(([name, of]) => [name, toJson(name, of)]));

const IMPORT: Door = (field, text) => {
  const api_key = generateApiKey(BRAND, "live").apiKey;
  return importOf(JSON.stringify({ api_key, ...newKey(), ...bodyOf(field, text) }));
};

const ISSUING: Readonly<Record<string, Door>> = {
  "keys issue": (field, text) =>
    command(["keys", "issue", ...optionsOf({ ...newKey(), ...fieldsOf(field, text) })]),
  "POST /keys": (field, text) => {
    const body = { ...newKey(), ...bodyOf(field, text) };
    return call("POST", "/keys", { headers: newIdempotencyKey(), body });
  },
  "keys import of JSON": IMPORT,
};
const FORM: Door = (field, text) =>
  page("/keys/issue", { ...newKey(), mode: "live", last_day: "2999-01-01", ...fieldsOf(field, text) });
const CSV: Door = (field, text) => {
  const fields = { api_key: generateApiKey(BRAND, "live").apiKey, ...newKey(), ...fieldsOf(field, text) };
  const cells = Object.values(fields).map((cell) => `"${cell.replaceAll('"', '""')}"`);
  return importOf(`${Object.keys(fields).join(",")}\n${cells.join(",")}\n`);
};

const LINES = { "keys import of CSV": CSV };
const PATCH: Door = (field, text) => call("PATCH", `/licenses/${licenseId}`, { body: bodyOf(field, text) });
/** Returns the form of an action on a key, with the boxes that it needs. */
const formOf =
  (action: string, boxes: Readonly<Record<string, string>> = {}): Door =>
  (field, text) =>
    page(`/keys/${keyId}/${action}`, { ...boxes, ...fieldsOf(field, text) });
/** The box without which only the forms refuse a limit that is used up, such as 0. */
const BELOW_USE = { below_use: "yes" };

const MODEL = {
  type: "SvcLDA",
  paradigm: "p300",
  n_features: "2",
  n_classes: "2",
  size_mb: "1",
  url: "https://models.example.org/m",
  checksum: "ab".repeat(32),
  requires_license: "free",
};
/** Returns the fields of a model that no door has added yet. */
const modelWith = (field: string, text: string) => ({
  name: `model-${++made}`,
  version: `${made}`,
  ...MODEL,
  [field.replace("model_", "")]: text,
});
const OF_MODEL: Readonly<Record<string, Door>> = {
  "models add": (field, text) => {
    const { checksum: sha256, ...fields } = modelWith(field, text);
    return command(["models", "add", ...optionsOf({ ...fields, sha256 })]);
  },
  "POST /models": (field, text) => {
    const fields = Object.entries(modelWith(field, text)).map(([name, of]) => [name, toJson(name, of)]);
    return call("POST", "/models", { body: Object.fromEntries(fields) });
  },
};
const MODEL_FORM: Door = (field, text) => {
  const { size_mb: _size, url: _url, checksum: _checksum, ...fields } = modelWith(field, text);
  // Another door has added the model of this name before.
  return page("/models/_add", { ...fields, add_version: "yes" });
};
const OF_AWAITING_MODEL = { ...OF_MODEL, "form of a model": MODEL_FORM };
/** The doors that make an account, and those that change one. */
const NAMING: Readonly<Record<string, Door>> = {
  ...ISSUING,
  ...LINES,
  form: FORM,
  "accounts update": (field, text) => command(["accounts", "update", accountId, `--${field}=${text}`]),
  "PATCH /accounts/{id}": (field, text) =>
    call("PATCH", `/accounts/${accountId}`, { body: { [field]: text } }),
  "form of an account": (field, text) =>
    page(`/accounts/${accountId}/change`, { name: "n", organization: "o", [field]: text }),
};
const OF_MACHINES: Readonly<Record<string, Door>> = {
  ...ISSUING,
  ...LINES,
  form: FORM,
  "keys machines": (field, text) => command(["keys", "machines", keyId, ...optionsOf(fieldsOf(field, text))]),
  "PATCH /licenses/{id}": PATCH,
  "form of a key": formOf("machines"),
};
const DOORS: Readonly<Record<string, Readonly<Record<string, Door>>>> = {
  name: NAMING,
  organization: NAMING,
  email: { ...ISSUING, ...LINES, form: FORM },
  external_id: {
    ...ISSUING,
    ...LINES,
    form: FORM,
    "PATCH /licenses/{id}": PATCH,
    "form of a key": formOf("external-id"),
    // Each list takes it as its declared condition.
    "GET /keys": (_, text) => call("GET", `/keys?external_id=${encodeURIComponent(text)}`),
  },
  tier: {
    ...ISSUING,
    ...LINES,
    form: FORM,
    "keys tier": (_, text) => command(["keys", "tier", keyId, text]),
    "PATCH /licenses/{id}": PATCH,
    "form of a key": formOf("tier", BELOW_USE),
  },
  mode: { ...ISSUING, ...LINES, form: FORM },
  monthly_limit: {
    ...ISSUING,
    ...LINES,
    form: FORM,
    "keys limit": (_, text) => command(["keys", "limit", keyId, text]),
    "PATCH /licenses/{id}": PATCH,
    "form of a key": formOf("limit", BELOW_USE),
  },
  max_machines: OF_MACHINES,
  seat_minutes: OF_MACHINES,
  // The form has a day instead.
  expires_at: {
    ...ISSUING,
    ...LINES,
    "keys renew": (_, text) => command(["keys", "renew", keyId, `--expires-at=${text}`, "--shorten"]),
    "PATCH /licenses/{id}": (_, text) =>
      call("PATCH", `/licenses/${licenseId}`, { body: { expires_at: text, shorten: true } }),
  },
  past_day: {
    "keys issue": (_, text) => command(["keys", "issue", ...optionsOf({ ...newKey(), expires_at: text })]),
    "POST /keys": (_, expires_at) =>
      call("POST", "/keys", { headers: newIdempotencyKey(), body: { ...newKey(), expires_at } }),
    form: (_, text) => FORM("last_day", text),
    "keys renew": (_, text) => command(["keys", "renew", keyId, `--expires-at=${text}`]),
    "PATCH /licenses/{id}": (_, text) => PATCH("expires_at", text),
    "form of a key": (_, text) => formOf("renew")("last_day", text),
    "tokens issue": (_, text) => issueToken(`token-${++made}`, `--expires-at=${text}`),
    "tokens renew": async (_, text) => {
      const name = `token-${++made}`;
      expect(await issueToken(name)).toBe(OK);
      return command(["tokens", "renew", name, `--expires-at=${text}`]);
    },
    "installer set-token": (_, text) => command(["installer", "set-token", `--expires-at=${text}`], "ghp_x"),
  },
  overlap: {
    "keys rotate": async (_, text) =>
      command(["keys", "rotate", (await admin.issue(newKey())).id, `--overlap=${text}`]),
    "POST /keys/{id}/rotate": async (_, overlap) => {
      const { id } = await admin.issue(newKey());
      return call("POST", `/keys/${id}/rotate`, { headers: newIdempotencyKey(), body: { overlap } });
    },
  },
  name_of_operator: {
    "operators login": (_, text) => command(["operators", "login", text, "--role=viewer"]),
    "tokens issue": (_, text) => issueToken(text),
  },
  model_name: OF_AWAITING_MODEL,
  version: OF_AWAITING_MODEL,
  type: OF_AWAITING_MODEL,
  paradigm: OF_AWAITING_MODEL,
  url: OF_MODEL,
  checksum: OF_MODEL,
  n_features: OF_AWAITING_MODEL,
  n_classes: OF_AWAITING_MODEL,
  size_mb: OF_MODEL,
  requires_license: OF_AWAITING_MODEL,
  reason: {
    "keys tier": (_, text) => command(["keys", "tier", keyId, "free", `--reason=${text}`]),
    "PATCH /accounts/{id}": (_, text) =>
      call("PATCH", `/accounts/${accountId}`, { body: { name: "n", reason: text } }),
    form: (_, reason) => page(`/accounts/${accountId}/change`, { name: "n", organization: "", reason }),
  },
  month: {
    "keys usage": (_, text) => command(["keys", "usage", keyId, `--month=${text}`]),
    "GET /usage": (_, text) => call("GET", `/usage?month=${encodeURIComponent(text)}`),
    "the page of use": (_, text) => page(`/usage?month=${encodeURIComponent(text)}`),
  },
  day: {
    "usage daily": (_, text) => command(["usage", "daily", `--to=${text}`]),
    "GET /usage/daily": (_, text) => call("GET", `/usage/daily?to=${encodeURIComponent(text)}`),
    "the audit log": (_, text) => page(`/audit?since=${encodeURIComponent(text)}`),
    "the last day": (_, text) => page("/keys/issue", { ...newKey(), mode: "live", last_day: text }),
  },
};

function issueToken(name: string, ...options: readonly string[]): Promise<string> {
  return command(["tokens", "issue", `--name=${name}`, "--scope=status:read", ...options]);
}

const TIME =
  "must be a day such as 2027-01-31, or an ISO 8601 timestamp such as 2027-01-31T12:00:00Z, or never";
const NUMBER = "must be a whole number, at least 0";
const MACHINES = "must be a whole number from 1 to 1000000";
const MINUTES = "must be a whole number from 5 to 129600";
const NAME = "must be one line of 1 to 200 characters, and no API key";
const ORGANIZATION = "must be one line of at most 200 characters, and no API key";
const EXTERNAL_ID = "must be 1 to 255 printable characters, and no API key";
const EMAIL = "must be an e-mail address, and no API key";
const TIER = "must be one of free, research, commercial, enterprise";
const MODE = "must be one of live, test";
const REASON = "must be one line of at most 2000 characters";
const MONTH = "must be a month such as 2026-11";
const DAY = "must be a day such as 2026-11-20";
const PAST = "expiry lies in the past";
const SPAN = "must be whole days or hours, such as 7d or 12h, at most ten years";
const OPERATOR =
  "must be 1 to 64 lowercase letters, digits, dots, hyphens and underscores, no API key, and must begin with a letter or digit";
const SLUG = "must be letters, digits, dots, dashes, plus or underscores, at most";
const TYPE = "must be one of SvcLDA, SvcQDA, SvcProbit; for another type set CLAVIGER_MODEL_TYPES";
const PARADIGM = "must be lowercase letters, digits and underscores, such as p300, and no API key";
const ADDRESS =
  "must be an http or https address of at most 2000 printable ASCII characters without spaces, " +
  "with no user and no password, because every client that lists the model gets them, and no API key";
const CHECKSUM = "must be 64 lowercase hexadecimal digits, with or without sha256: before them";
const OK = "accepted";

const TABLE: readonly (readonly [field: string, text: string, answer: string])[] = [
  ["name", "Ada", OK],
  ["name", " Ada", OK],
  ["name", "😀".repeat(150), OK],
  ["name", "x".repeat(200), OK],
  ["name", "x".repeat(201), NAME],
  ["name", "two\u0085lines", NAME],
  ["name", "a\u200bb", OK],
  ["name", "=1+1'); drop table keys;-- <b>\u202e", OK],
  ["organization", "😀".repeat(200), OK],
  ["organization", "😀".repeat(201), ORGANIZATION],
  ["organization", "a\u0000b", ORGANIZATION],
  ["organization", "a\tb", ORGANIZATION],
  ["email", "Ada@Example.org", OK],
  ["email", "ada", EMAIL],
  ["email", `${"x".repeat(65)}@example.org`, EMAIL],
  ["email", "ädä@example.org", EMAIL],
  ["external_id", "order 17", OK],
  ["external_id", "x".repeat(255), OK],
  ["external_id", "x".repeat(256), EXTERNAL_ID],
  ["external_id", "a\u200bb", EXTERNAL_ID],
  ["external_id", "a\u2028b", EXTERNAL_ID],
  ["tier", "research", OK],
  ["tier", "Free", TIER],
  ["tier", "gold", TIER],
  ["mode", "live", OK],
  ["mode", "LIVE", MODE],
  ["mode", "both", MODE],
  ["monthly_limit", "0", OK],
  ["monthly_limit", "9007199254740991", OK],
  ["monthly_limit", "9007199254740992", NUMBER],
  ["monthly_limit", "-1", NUMBER],
  ["monthly_limit", "1.5", NUMBER],
  ["monthly_limit", "9e3", NUMBER],
  ["monthly_limit", "never", NUMBER],
  ["max_machines", "1", OK],
  ["max_machines", "1000000", OK],
  ["max_machines", "0", MACHINES],
  ["max_machines", "1000001", MACHINES],
  ["max_machines", "2.5", MACHINES],
  ["max_machines", "many", MACHINES],
  ["seat_minutes", "5", OK],
  ["seat_minutes", "1440", OK],
  ["seat_minutes", "129600", OK],
  ["seat_minutes", "4", MINUTES],
  ["seat_minutes", "129601", MINUTES],
  ["seat_minutes", "1h", MINUTES],
  ["expires_at", "never", OK],
  ["expires_at", "2999-01-31", OK],
  ["expires_at", "2999-01-31T00:00:00+02:00", OK],
  ["expires_at", "2999-02-29", TIME],
  ["expires_at", "2999-01-31T00:00:00", TIME],
  ["expires_at", "Never", TIME],
  ["past_day", "2001-01-01", PAST],
  ["overlap", "0d", OK],
  ["overlap", "12h", OK],
  ["overlap", "3650d", OK],
  ["overlap", "3651d", SPAN],
  ["overlap", "87601h", SPAN],
  ["overlap", "1w", SPAN],
  ["overlap", "-1d", SPAN],
  ["name_of_operator", "ada-1.x_y", OK],
  ["name_of_operator", "x".repeat(64), OK],
  ["name_of_operator", "x".repeat(65), OPERATOR],
  ["name_of_operator", "Ada", OPERATOR],
  ["name_of_operator", "a b", OPERATOR],
  ["model_name", "Model_1.0-rc+x", OK],
  ["model_name", "x".repeat(200), OK],
  ["model_name", "x".repeat(201), `${SLUG} 200 characters, and no API key`],
  ["model_name", "../x", `${SLUG} 200 characters, and no API key`],
  ["version", "x".repeat(101), `${SLUG} 100 characters, and no API key`],
  ["version", "1 0", `${SLUG} 100 characters, and no API key`],
  ["type", "SvcQDA", OK],
  ["type", "svcqda", TYPE],
  ["paradigm", "motor_imagery", OK],
  ["paradigm", "P300", PARADIGM],
  ["url", "http://models.example.org:8080/a%20b", OK],
  ["url", "ftp://models.example.org/m", ADDRESS],
  ["url", "https://user@models.example.org/m", ADDRESS],
  ["url", `https://models.example.org/${"x".repeat(2_000)}`, ADDRESS],
  ["checksum", "cd".repeat(32), OK],
  ["checksum", `sha256:${"cd".repeat(32)}`, OK],
  ["checksum", "CD".repeat(32), CHECKSUM],
  ["n_features", "1", OK],
  ["n_features", "0", "must be a whole number, at least 1"],
  ["n_classes", "1", "must be a whole number, at least 2"],
  ["n_classes", "2.5", "must be a whole number, at least 2"],
  ["size_mb", "0.5", OK],
  ["size_mb", "-1", "must be a number from 0 to 1000000000"],
  ["size_mb", "big", "must be a number from 0 to 1000000000"],
  ["requires_license", "enterprise", OK],
  ["requires_license", "trial", TIER],
  ["reason", "because", OK],
  ["reason", "😀".repeat(2_000), OK],
  ["reason", "x".repeat(2_001), REASON],
  ["reason", "two\nlines", REASON],
  ["month", "2026-11", OK],
  ["month", "2026-13", MONTH],
  ["month", "2026-11-01", MONTH],
  ["month", "0999-11", MONTH],
  ["month", "26-11", MONTH],
  ["day", "2026-11-31", DAY],
  ["day", "2026-11-20T00:00:00Z", DAY],
  ["day", "20.11.2026", DAY],
];

/** Sends the text through every door, and returns the answers by the names of the doors. */
async function ask(field: string, text: string): Promise<Readonly<Record<string, string>>> {
  const doors = Object.entries(DOORS[field] ?? {});
  expect(doors.length).toBeGreaterThan(1);
  return Object.fromEntries(
    await Promise.all(doors.map(async ([name, door]) => [name, await door(field, text)])),
  );
}

describe("Every door", () => {
  const rows = TABLE.map(
    ([field, text, answer]) => [field, text.slice(0, 20), text.length, { text, answer }] as const,
  );
  test.each(rows)(
    "decides the same for the %s %j (length %d)",
    async (field, _start, _length, { text, answer }) => {
      const answers = await ask(field, text);
      expect(answers).toEqual(Object.fromEntries(Object.keys(answers).map((name) => [name, answer])));
    },
  );

  test("refuses a text with a key, a part of a key, a line break or half a character, and stores it nowhere", async () => {
    const token = generateToken(BRAND);
    const keys = [`svc_live_${DIGITS}`, `key ACME_TEST_${DIGITS.slice(0, 8)}!`, token, DIGITS];
    const emails = [`svc_live_${DIGITS}`, DIGITS].map((key) => ["email", `${key}@example.org`] as const);
    const texts = [...keys, "two\nlines", "half\ufffd", "half\ud800"];
    const names = texts.flatMap((text) => [["name", text] as const, ["organization", text] as const]);
    const whole = [`svc_live_${DIGITS}`, token, DIGITS];
    const ofModels = whole.flatMap((key) => [
      ["model_name", key] as const,
      ["version", `1.0+${key}`] as const,
      ["paradigm", key.toLowerCase()] as const,
      ["url", `https://models.example.org/m?key=${key}`] as const,
      ["url", `https://models.example.org/m?key=${key.replaceAll("_", "%5F")}`] as const,
      ["name_of_operator", key.toLowerCase()] as const,
    ]);
    for (const [field, text] of [...names, ...emails, ...ofModels]) {
      // Commands and files are checked for such texts as a whole, with other sentences.
      for (const [door, answer] of Object.entries(await ask(field, text)))
        expect({ field, text, door, isRefused: answer !== OK }).toEqual({
          field,
          text,
          door,
          isRefused: true,
        });
    }
    const dump = await dumpText(admin.database);
    for (const text of [DIGITS, token, "ACME_TEST", "half"]) expect(dump).not.toContain(text);
  });
});
