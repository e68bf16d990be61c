/** One rule for each text of an account: the API, commands, the console and the import accept and refuse the same texts. */
import { beforeAll, describe, expect, test } from "bun:test";
import { generateApiKey, parseImportLine } from "../../src/keys/mod.ts";
import { generateToken } from "../../src/operators/tokens.ts";
import { isRefusal } from "../../src/refusal.ts";
import { dumpText } from "../support/dump.ts";
import { BRAND } from "../support/issue.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { newIdempotencyKey } from "./sample_requests.ts";

const admin = useAdmin();
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));
let client: ReturnType<typeof createConsoleClient>;
let cookie: string;

beforeAll(async () => {
  client = createConsoleClient(admin);
  ({ cookie } = await client.logIn());
});

type Fields = Readonly<Record<string, string>>;
/** Returns whether the door accepted the text, and the refusal if it did not. */
type Door = (fields: Fields) => Promise<readonly [isAccepted: boolean, answer: string]>;

const optionsOf = (fields: Fields) => Object.entries(fields).map(([name, value]) => `--${name}=${value}`);
const command = async (args: readonly string[]) => {
  const { status, err } = await commands.run(args);
  return [status === 0, err] as const;
};

/** The doors that make an account. */
const MAKING: Readonly<Record<string, Door>> = {
  "POST /keys": async (fields) => {
    const sent = { headers: newIdempotencyKey(), body: { tier: "free", ...fields } };
    const { status, body } = await admin.call("POST", "/keys", sent);
    return [status === 201, JSON.stringify(body)];
  },
  "keys issue": (fields) => command(["keys", "issue", "--tier", "free", ...optionsOf(fields)]),
  "the form of a key": async (fields) => {
    const form = { tier: "free", mode: "live", last_day: "2999-01-01", ...fields };
    const { status, text } = await client.send("/keys/issue", { cookie, form });
    return [status === 200, text];
  },
  "keys import": async (fields) => {
    const api_key = generateApiKey(BRAND, "live").apiKey;
    const line = parseImportLine(JSON.stringify({ api_key, tier: "free", ...fields }), BRAND);
    return isRefusal(line) ? [false, line.sentence] : [true, ""];
  },
};

/** The doors that change an account. */
const CHANGING: Readonly<Record<string, (id: string) => Door>> = {
  "PATCH /accounts/{id}": (id) => async (fields) => {
    const { status, body } = await admin.call("PATCH", `/accounts/${id}`, { body: fields });
    return [status === 200, JSON.stringify(body)];
  },
  "accounts update": (id) => (fields) => command(["accounts", "update", id, ...optionsOf(fields)]),
  "the form of an account": (id) => async (fields) => {
    const form = { name: "n", organization: "o", ...fields };
    const { status, text } = await client.send(`/accounts/${id}/change`, { cookie, form });
    return [status === 303, text];
  },
};

const DIGITS = "0123456789abcdef".repeat(3);
const TOKEN = generateToken(BRAND);
const texts: [what: string, text: string, isAccepted: boolean][] = [
  ["a name", "Ada", true],
  ["150 emoji", "😀".repeat(150), true],
  ["200 emoji", "😀".repeat(200), true],
  ["201 emoji", "😀".repeat(201), false],
  ["201 letters", "x".repeat(201), false],
  ["hostile text", "=1+1'); drop table keys;-- <b>\u202e", true],
  ["a newline", "two\nlines", false],
  ["U+0085", "two\u0085lines", false],
  ["U+FFFD", "bytes\ufffd", false],
  ["half a surrogate pair", "a\ud800", false],
  ["an API key", `svc_live_${DIGITS}`, false],
  ["a part of a key of another brand, in a text", `key ACME_TEST_${DIGITS.slice(0, 8)}!`, false],
  ["a token", TOKEN, false],
  ["the digits of a key", DIGITS, false],
];

let made = 0;
const newEmail = () => `texts-${++made}@example.org`;

describe("The name and the organization of an account", () => {
  test.each(texts)(
    "of %s: every door decides the same, and a refusal does not repeat a key",
    async (_, text, isAccepted) => {
      for (const field of ["name", "organization"]) {
        const doors = Object.entries(MAKING).map(
          ([name, door]) => [name, door, { email: newEmail() }] as const,
        );
        const { userId } = await admin.issue({ email: newEmail() });
        const changing = Object.entries(CHANGING).map(([name, to]) => [name, to(userId), {}] as const);
        for (const [name, door, more] of [...doors, ...changing]) {
          const [accepted, answer] = await door({ ...more, [field]: text });
          expect({ name, field, accepted }).toEqual({ name, field, accepted: isAccepted });
          // A form shows the entered text again, to the operator alone.
          if (!isAccepted && !name.startsWith("the form")) expect(answer).not.toContain(DIGITS);
        }
      }
    },
  );

  test("is not what looks like a key in any table", async () => {
    const dump = await dumpText(admin.database);
    for (const text of [DIGITS, TOKEN, "ACME_TEST"]) expect(dump).not.toContain(text);
  });
});

describe("The e-mail of an account", () => {
  const emails: [email: string, isAccepted: boolean][] = [
    ["Ada@Example.org", true],
    ["ada", false],
    [`svc_live_${DIGITS}@example.org`, false],
    [`${DIGITS}@example.org`, false],
  ];
  test.each(emails)("%s: every door decides the same", async (email, isAccepted) => {
    for (const [name, door] of Object.entries(MAKING)) {
      expect({ name, accepted: (await door({ email }))[0] }).toEqual({ name, accepted: isAccepted });
    }
  });
});
