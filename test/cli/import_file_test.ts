/** The file of `claviger keys import`: JSON or CSV, read and checked as a whole. */
import { describe, expect, test } from "bun:test";
import { isRefusal } from "../../src/base/refusal.ts";
import { readImportFile } from "../../src/cli/import_file.ts";
import type { Invocation } from "../../src/cli/invocation.ts";
import { BRAND } from "../support/issue.ts";

const KEY = `svc_live_${"0a".repeat(24)}`;
const OTHER = `svc_test_${"0b".repeat(24)}`;

async function read(text: string) {
  async function* input() {
    // In two parts, so that a line goes over their border.
    yield new TextEncoder().encode(text.slice(0, 40));
    yield new TextEncoder().encode(text.slice(40));
  }
  const invocation = { workingFolder: "/", input: input() } as Pick<Invocation, "workingFolder" | "input">;
  const keys = await readImportFile(invocation, "-", BRAND);
  return isRefusal(keys) ? keys.sentence : keys;
}

describe("readImportFile()", () => {
  const csv = `api_key,email,name,organization,tier,monthly_limit,used,expires_at,max_machines,seat_minutes
${KEY},Ada@Example.org,Ada,"Example ""A"", Ltd.",research,70000,12,never,30,15

${OTHER},bo@example.org,,,free,,,,,
`;
  const json = [
    {
      api_key: KEY,
      email: "Ada@Example.org",
      name: "Ada",
      organization: 'Example "A", Ltd.',
      tier: "research",
    },
    { api_key: OTHER, email: "bo@example.org", tier: "free" },
  ];
  const more = [
    { monthly_limit: 70_000, used: 12, expires_at: "never", max_machines: 30, seat_minutes: 15 },
    {},
  ];

  test("reads CSV as it reads JSON, with either end of a line and a byte order mark", async () => {
    const lines = json.map((fields, index) => JSON.stringify({ ...fields, ...more[index] }));
    const expected = await read([lines[0], "", "", lines[1]].join("\n"));
    expect(expected).toHaveLength(2);
    const keysOf = async (text: string) => (await read(text)) as { key: object }[];
    for (const text of [csv, csv.replaceAll("\n", "\r\n"), `\ufeff${csv}`, csv.trimEnd()]) {
      expect((await keysOf(text)).map(({ key }) => key)).toEqual(
        (expected as { key: object }[]).map(({ key }) => key),
      );
    }
  });

  test.each([
    ["email,email\n", "line 1: it has the column email twice"],
    [`${KEY}\n`, "line 1: it is neither a JSON object nor the first line of CSV"],
    [
      `${KEY},ada@example.org,free\n`,
      "such as api_key,email,tier: the columns of CSV are api_key, sha256, mode, ",
    ],
    [
      "\napi_key,email,tier,phone,fax\n",
      "line 2: it has the unknown column phone, fax: the columns of CSV are api_key",
    ],
    [
      `api_key,email,${KEY},x\u001b[2J\n`,
      "line 1: it has the unknown column [another text], [another text]: ",
    ],
    [
      "API_KEY, Email,Tier\n",
      "line 1: it has the unknown column API_KEY,  Email, Tier: the columns of CSV are api_key",
    ],
    [`api_key,email,${KEY.slice(0, 20)}\n`, "line 1: it has the unknown column [key]: "],
    ["api_key;email;tier\n", "line 1: it is separated by ; and not by commas"],
    ['"api_key";"email";"tier"\r\n', "line 1: it is separated by ; and not by commas"],
    ["api_key\temail\ttier\n", "line 1: it is separated by tabs and not by commas"],
    ["api_key,n\ufffdme\n", "line 1: it is not UTF-8"],
    [`api_key,email,tier,\n${KEY},a@b.c,free,x\n`, "line 2: it has a value in a column without a name"],
    ["email,tier\nada@example.org\n", "line 2: it is not CSV with 2 cells, as the first line"],
    [
      'email,tier\n"ada@example.org,free\n',
      "line 2: a quotation mark is open at its end: no cell can have a line break",
    ],
    ['email,tier\nada"@"example.org,free\n', "line 2: it is not CSV with 2 cells, as the first line"],
    [`api_key,email,tier,used\n${KEY},a@b.c,free,1e3\n`, "line 2: used must be a whole number"],
    [
      `api_key,email,tier,max_machines\n${KEY},a@b.c,free,0\n`,
      "line 2: max_machines must be a whole number from 1",
    ],
    [
      `api_key,email,tier,seat_minutes\n${KEY},a@b.c,free,5\n`,
      "line 2: seat minutes need a machine limit, so give both",
    ],
    [`api_key,email\n${KEY},a@b.c\n`, "line 2: tier is missing"],
    ['{"tier": 1}\n[]\n', "line 2: it is not a JSON object"],
  ])("refuses %j, and never repeats a key", async (text, why) => {
    const sentence = await read(text);
    expect(sentence).toContain(why);
    expect(sentence).not.toContain(KEY.slice(9));
  });

  test("reads no key from a line of empty cells, and none from columns without a name", async () => {
    const text = `api_key,email,tier,,\r\n,,,,\r\n${KEY},ada@example.org,free,,\r\n"",,,,\r\n,,\r\n`;
    expect(await read(text)).toMatchObject([{ key: { email: "ada@example.org" }, line: 3 }]);
  });

  test("names a cell with a line break once, and the wrong lines behind it", async () => {
    const cell = `${KEY},ada@example.org,"Ada\nLovelace",free`;
    const text = `api_key,email,name,tier\n${cell}\n${cell}\n${KEY},bo@example.org,Bo,gold\n`;
    const open = "a quotation mark is open at its end: no cell can have a line break";
    expect(await read(text)).toStartWith(
      `Cannot import keys: line 2: ${open}; line 4: ${open}; line 6: tier must be`,
    );
  });

  test("names the first twenty wrong lines and counts the others", async () => {
    const sentence = String(await read(`api_key,email,tier\n${`${KEY},nobody,gold\n`.repeat(23)}`));
    expect(sentence).toStartWith("Cannot import keys: line 2: email must ");
    expect(sentence.match(/line \d+: /g)).toHaveLength(20);
    expect(sentence).toEndWith("; and 3 more wrong lines");
  });
});
