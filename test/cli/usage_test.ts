/**
 * Wrong usage is reported before any data is opened. No data folder exists here, and no test may create
 * one.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import packageJson from "../../package.json" with { type: "json" };
import { refusalOf, usageErrorOf } from "./command_line.ts";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine();
afterAll(() => expect(existsSync(line.dataDir)).toBe(false));

const SHA256 = "0".repeat(64);
const KEY = `svc_live_${"0a".repeat(24)}`;
const ISSUE = ["keys", "issue", "--email", "ada@example.org", "--tier", "free"];
const MODEL = [
  "models add --name m --version 1 --type SvcLDA --n-features 2 --n-classes 2 --requires-license free",
  "--paradigm p300 --url https://x.example/m --size-mb 1 --sha256",
]
  .join(" ")
  .split(" ");

describe("claviger", () => {
  test("shows its help on standard error and ends with 2 without a command", async () => {
    const { status, out, err } = await line.run([]);
    expect({ status, out }).toEqual({ status: 2, out: "" });
    expect(err).toStartWith("Usage: claviger [options] [command]\n");
  });

  test.each(["keys", "accounts", "models", "installer"])(
    "%s alone shows that group's help",
    async (group) => {
      const { status, err } = await line.run([group]);
      expect(status).toBe(2);
      expect(err).toStartWith(`Usage: claviger ${group} `);
    },
  );

  const commands = [
    "",
    "serve",
    "keys",
    "keys issue",
    "keys import",
    "keys list",
    "keys show",
    "keys find",
    "keys why",
    "keys revoke",
    "accounts list",
    "accounts usage",
    "accounts update",
    "accounts renew",
    "models add",
    "models list",
    "models show",
    "models remove",
    "installer set-token",
    "installer clear-token",
    "migrate",
    "audit",
    "version",
  ];
  test.each(commands)("%s --help explains itself and ends with 0", async (command) => {
    const { status, out, err } = await line.run([...command.split(" ").filter(Boolean), "--help"]);
    expect({ status, err }).toEqual({ status: 0, err: "" });
    expect(out).toStartWith(`Usage: claviger${command && ` ${command}`}`);
  });

  test.each(["help", "help keys", "help keys issue", "keys help issue"])(
    "%s shows the help of what it names",
    async (asked) => {
      const names = asked.split(" ").filter((word) => word !== "help");
      const { status, out, err } = await line.run(asked.split(" "));
      expect({ status, err }).toEqual({ status: 0, err: "" });
      expect(out).toBe((await line.run([...names, "--help"])).out);
      expect(out).toStartWith(`Usage: ${["claviger", ...names].join(" ")} [options]`);
    },
  );

  test.each(["keys issue", "keys list", "keys tier", "models add"])(
    "%s --help names the tiers",
    async (command) => {
      const { out } = await line.run([...command.split(" "), "--help"]);
      expect(out.replaceAll(/\s+/g, " ")).toContain('"free", "research", "commercial", "enterprise"');
    },
  );

  test.each([["version"], ["--version"]])("%s prints the version", async (argument) => {
    const out = expect.stringMatching(new RegExp(`^claviger ${packageJson.version}\\n`));
    expect(await line.run([argument])).toEqual({ status: 0, out, err: "" });
  });
});

const wrong: [what: string, args: string[], error: string][] = [
  ["an unknown command", ["frobnicate"], "unknown command 'frobnicate'; see `claviger --help`"],
  ["a nearly right command", ["key"], "unknown command 'key' (did you mean keys?); see `claviger --help`"],
  ["a command of a group", ["rotate", "key_1"], "unknown command 'rotate' (did you mean keys rotate?); see"],
  ["a command of two groups", ["add"], "unknown command 'add' (did you mean "],
  [
    "help on a command of a group",
    ["help", "rotate"],
    "unknown command 'rotate' (did you mean keys rotate?); see",
  ],
  ["a misspelt option", ["serve", "--prot", "1"], "unknown option '--prot' (did you mean --port?); see"],
  ["an unknown subcommand", ["keys", "frob"], "unknown command 'frob'; see `claviger keys --help`"],
  [
    "help on an unknown command",
    ["help", "keys", "frob"],
    "unknown command 'frob'; see `claviger keys --help`",
  ],
  ["an unknown option", ["serve", "--frob"], "unknown option '--frob'; see `claviger serve --help`"],
  ["an argument too many", ["serve", "x"], "too many arguments for 'serve'"],
  ["an option without its value", ["serve", "--host"], "option '--host <host>' argument missing"],
  ["no e-mail", ["keys", "issue"], "required option '--email <email>' not specified"],
  ["a bad e-mail", [...ISSUE, "--email", "ada"], "It must be an e-mail address"],
  ["a bad tier", [...ISSUE, "--tier", "gold"], "It must be one of free, research, commercial, enterprise"],
  ["a bad mode", [...ISSUE, "--mode", "dry"], "It must be one of live, test"],
  ["an empty name", [...ISSUE, "--name", ""], "It must be one line of 1 to 200 characters"],
  ["a long name", [...ISSUE, "--name", "n".repeat(201)], "It must be one line of 1 to 200 characters"],
  ["a name of two lines", [...ISSUE, "--name", "a\nb"], "It must be one line of 1 to 200 characters"],
  ["a negative limit", [...ISSUE, "--monthly-limit=-1"], "It must be a whole number, at least 0"],
  ["a limit past 2^53", [...ISSUE, "--monthly-limit", "9007199254740993"], "It must be a whole number"],
  [
    "a bad expiry",
    [...ISSUE, "--expires-at", "soon"],
    "It must be a day such as 2027-01-31, or an ISO 8601 timestamp",
  ],
  [
    "an impossible day",
    [...ISSUE, "--expires-at", "2027-02-30"],
    "It must be a day such as 2027-01-31, or an ISO 8601 timestamp",
  ],
  ["a bad key id", ["keys", "show", "usr_1"], "It must be key_ and 32 hexadecimal digits"],
  ["the end of a key", ["keys", "show", "0d2e"], "digits; `claviger keys list --search TEXT` finds it"],
  ["no file", ["keys", "import"], "missing required argument 'file'"],
  [
    "no places",
    ["keys", "machines", `key_${"0".repeat(32)}`],
    "give --max-machines, --seat-minutes, --self-releases or --shows-machines",
  ],
  ["no change", ["accounts", "update", "ada@example.org"], "give --email, --name or --organization"],
  [
    "a long reason",
    ["keys", "revoke", `key_${"0".repeat(32)}`, "--reason", "r".repeat(2001)],
    "at most 2000",
  ],
  [
    "an account's name in place of its id",
    ["accounts", "update", "ada", "--name", "Ada"],
    "It must be an account's id",
  ],
  ["erasing by name", ["accounts", "erase", "ada"], "It must be an account's id, usr_ and"],
  ["listing keys by name", ["keys", "list", "--account", "ada"], "It must be an account's id, usr_ and"],
  ["no data folder", ["keys", "list", "--data-dir", ""], "It must be the path of a file or folder"],
  ["no settings file", ["keys", "list", "--env-file", ""], "It must be the path of a file or folder"],
  ["no backup", ["restore", ""], "It must be the path of a file or folder; an empty text names none"],
  ["no folder of backups", ["backup", ""], "It must be the path of a file or folder"],
  ["no folder of backups for doctor", ["doctor", "--backups", ""], "It must be the path of a file or folder"],
  ["no file of keys", ["keys", "import", ""], "It must be the path of a file or folder"],
  ["no license file", ["licenses", "verify", ""], "It must be the path of a file or folder"],
  [
    "no file of public keys",
    ["licenses", "verify", "a", "--jwks", ""],
    "It must be the path of a file or folder",
  ],
  [
    "no file of certificates",
    ["health", "--url", "http://127.0.0.1:1", "--ca", ""],
    "It must be the path of a file or folder",
  ],
  ["too few classes", [...MODEL, SHA256, "--n-classes", "1"], "It must be a whole number, at least 2"],
  ["a bad size", [...MODEL, SHA256, "--size-mb", "big"], "It must be a number from 0 to 1000000000"],
  ["a bad owner", [...MODEL, SHA256, "--owner", "ada"], "It must be an account's id, usr_ and"],
  ["a search without a letter", ["keys", "list", "--search", "@"], "with a letter or a digit"],
  ["a search without a letter", ["accounts", "list", "--search", "@"], "with a letter or a digit"],
  ["too many rows", ["audit", "--limit", "100001"], "It must be a whole number from 1 to 100000"],
];

test.each(wrong)("claviger refuses %s with status 2 and one line", async (_, args, error) => {
  const sentence = usageErrorOf(await line.run(args));
  expect(sentence).toContain(error);
  expect(sentence).toMatch(/; see `claviger[a-z -]* --help`$/);
});

describe("claviger refuses a key as an argument:", () => {
  const tries = [
    ["keys", "find", KEY],
    ["keys", "show", KEY],
    ["keys", "revoke", KEY.toUpperCase()],
    ["keys", "find", `--key=${KEY}`],
    ["keys", "find", KEY.replace("svc", "acme")],
  ];
  test.each(tries)("%s %s", async (...args) => {
    const ended = await line.run(args);
    expect(usageErrorOf(ended)).toContain("`claviger keys find` reads the key from standard input");
    expect(ended.err.toLowerCase()).not.toContain("0a0a");
  });

  test("claviger hides arguments that look like a key", async () => {
    const { err } = await line.run(["keys", "show", KEY.slice(0, -1)]);
    expect(err).toContain("[key]");
    expect(err).not.toContain("0a0a");
  });
});

describe("claviger checks before it looks for a database", () => {
  test("that a model's fields are valid", async () => {
    expect(usageErrorOf(await line.here([...MODEL, "12"]))).toContain(
      "'--sha256 <hex>' argument '12' is invalid. It must be 64 lowercase hexadecimal digits",
    );
    expect(usageErrorOf(await line.here([...MODEL, SHA256, "--metadata", "{"]))).toBe(
      "Cannot add model: --metadata must be a JSON object",
    );
  });

  test("that standard input is valid", async () => {
    for (const input of ["", "\n", "nonsense", `${KEY} ${KEY}`, "x".repeat(2000)]) {
      expect(refusalOf(await line.here(["keys", "find"], { input }))).toBe(
        "Cannot find key: standard input must hold one key, svc_live_ or svc_test_ and 48 lowercase " +
          "hexadecimal digits",
      );
    }
    for (const [input, why] of [
      ["", "standard input is empty"],
      ["two words", "it must be one line"],
      ["x".repeat(9000), "standard input is too long"],
    ] as const) {
      expect(refusalOf(await line.here(["installer", "set-token"], { input }))).toContain(why);
    }
    for (const args of [
      ["restore", "-"],
      ["backup", "-", "--verify"],
    ]) {
      expect(refusalOf(await line.here(args))).toBe("Cannot use the backup: standard input is empty");
      expect(refusalOf(await line.here(args, { input: "x".repeat(100) }))).toStartWith(
        "Cannot use the backup standard input: it is no backup of Claviger, or it was cut short",
      );
    }
  });

  const good = { api_key: KEY, email: "ada@example.org", tier: "free" };
  const files: [what: string, text: string, error: string][] = [
    ["no line", "\n\n", "holds no keys"],
    ["a line that is no JSON", `${JSON.stringify(good)}\nhello`, "line 2: it is not JSON"],
    ["a line without a tier", JSON.stringify({ ...good, tier: undefined }), "line 1: tier"],
    [
      "a key of another brand",
      JSON.stringify({ ...good, api_key: "acme_live_1" }),
      "line 1: api_key must be svc_",
    ],
    ["a line past 64 KiB", `{"x":"${"y".repeat(70_000)}"}`, "line 1 is longer than 64 KiB"],
    ["a line that never ends", "y".repeat(300_000), "line 1 is longer than 64 KiB"],
    ["lines without end", "\n".repeat(2_000_001), "has more than 2000000 lines; split the file"],
    ["text that is not UTF-8", "\ufffd", "line 1: it is not UTF-8"],
  ];
  test.each(files)("that a file to import is valid: it refuses %s", async (what, text, error) => {
    const path = line.write(`${what.replaceAll(" ", "-")}.jsonl`, text);
    const sentence = refusalOf(await line.here(["keys", "import", path]));
    expect(sentence).toStartWith("Cannot import keys: ");
    expect(sentence).toContain(error);
    expect(sentence).not.toContain("0a0a");
  });

  test("that a file to import exists and is not a folder", async () => {
    expect(refusalOf(await line.here(["keys", "import", "missing.jsonl"]))).toBe(
      `Cannot import keys: ${line.folder}/missing.jsonl: there is no such file`,
    );
    expect(refusalOf(await line.here(["keys", "import", line.folder]))).toEndWith("it is a folder");
  });

  test("that settings are valid", async () => {
    expect(refusalOf(await line.here(["keys", "list"], { env: { CLAVIGER_PORT: "x" } }))).toStartWith(
      "CLAVIGER_PORT must be a whole number",
    );
    for (const [flag, value, why] of [
      ["--port", "70000", "It must be a whole number from 0 to 65535"],
      ["--port", "", "It must be a whole number"],
      ["--host", "not a host", "It must be an address or host name to listen on"],
      ["--metrics-listen", "9464", "It must be HOST:PORT"],
    ] as const) {
      expect(usageErrorOf(await line.here(["serve", flag, value]))).toContain(why);
    }
    const wrong = await line.here(["serve"], { env: { CLAVIGER_PORT: "x" } });
    expect([wrong.status, wrong.out]).toEqual([78, ""]);
    expect(wrong.err).toMatch(/^claviger: CLAVIGER_PORT must be [^\n]+; it is set in the environment\n$/);
    expect(refusalOf(await line.here(["audit"], { env: { CLAVIGER_COLOUR: "red" } }))).toStartWith(
      "CLAVIGER_COLOUR is not a setting",
    );
  });
});

test("claviger refuses a missing data folder and does not make one", async () => {
  const ids = [`key_${"0".repeat(32)}`];
  for (const args of [
    ["keys", "list"],
    ["keys", "show", ...ids],
    ["keys", "revoke", ...ids],
    ["accounts", "list"],
    ["accounts", "update", "ada@example.org", "--name", "Ada"],
    ["models", "list"],
    ["models", "remove", "m"],
    ["installer", "clear-token"],
    ["audit"],
    ["migrate", "--status"],
    ISSUE,
  ]) {
    expect(refusalOf(await line.here(args))).toStartWith(`Cannot find a database in ${line.dataDir}: start`);
  }
});
