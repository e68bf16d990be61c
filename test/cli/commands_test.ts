/** Runs every command while a service runs: its output, its changes and its refusals. */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { toHint } from "../../src/licensing/keys/mod.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { until } from "../support/until.ts";
import { createCommandLine, createIssuer, refusalOf, usageErrorOf } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line, service } = useServing([], { env: { CLAVIGER_LIMIT_VALIDATE: "0" } });

const NOBODY = `key_${"0".repeat(32)}`;
const NO_ACCOUNT = `usr_${"0".repeat(32)}`;
const AT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
/** More rows than all tests add, also the one that imports thousands of keys. */
const ALL_ROWS = ["--limit", "100000"];
const issue = createIssuer(line);
/** The arguments of `keys issue` for a further person. */
const issueArgs = (...more: string[]) => [
  ...["keys", "issue", "--email", `${crypto.randomUUID()}@example.org`, "--tier", "research"],
  ...more,
];

const validate = (apiKey: string) => service.post("/v1/auth/validate", { api_key: apiKey });

describe("claviger serve", () => {
  test("prints its address, its data folder, and how to issue the first key", () => {
    expect(service.out).toMatch(/^Claviger serves at http:\/\/127\.0\.0\.1:\d+\n/);
    expect(service.out).toContain(`Its data is in ${line.dataDir}\n`);
    expect(service.out).toContain(
      `There are no keys yet. To issue the first key, run\n` +
        `  ./claviger keys issue --email you@example.org --tier research --data-dir ${line.dataDir} --env-file `,
    );
  });

  test("prints the same as JSON if the log is JSON, with the demo's keys", async () => {
    using other = createCommandLine({ prepared: true });
    const options = { env: { CLAVIGER_LOG_FORMAT: "json" } };
    const objects = (out: string) =>
      out
        .trim()
        .split("\n")
        .map((text) => JSON.parse(text));
    const first = await other.serve(["--metrics-listen", "127.0.0.1:0"], options);
    await first.stop();
    expect(objects(first.out)).toMatchObject([
      { level: "info", message: `Claviger serves at ${first.url}`, url: first.url },
      { message: `Its data is in ${other.dataDir}`, place: other.dataDir },
      { message: expect.stringMatching(/^Its metrics are at http:/) },
      {
        message: "There are no keys yet. To issue the first key, run",
        command: expect.stringContaining("keys issue"),
      },
    ]);
    const demo = await other.serve(["--demo"], options);
    await demo.stop();
    expect(objects(demo.out).slice(-2)).toMatchObject([
      { free: expect.stringMatching(/^svc_test_/) },
      {
        message: "To log in to the console, add --admin-listen 127.0.0.1:8081, and run",
        command: expect.stringContaining("operators login your-name --role admin"),
      },
    ]);
  });

  test("refuses a folder that a service holds, and names that service", async () => {
    for (const port of ["0", new URL(service.url).port]) {
      expect(refusalOf(await line.here(["serve", "--port", port]))).toBe(
        `Cannot serve from ${line.dataDir}: a service runs there already (process ${process.pid}); stop it or ` +
          "choose another folder",
      );
    }
  });
});

/** Commands, each with its refusal, and with its standard input if it reads any. */
const refusals: [command: string, refusal: string, input?: string][] = [
  [`keys show ${NOBODY}`, `Cannot show key: there is no key ${NOBODY}; see \`claviger keys list\``],
  ["keys find", "Cannot find key: the key on standard input was never issued or imported here", UNKNOWN_KEY],
  ["keys import -", "Cannot import keys: standard input holds no keys"],
  ["keys import -", "Cannot import keys: line 1: it is not JSON", "{hello"],
  ["keys import -", "Cannot import keys: line 1 is longer than 64 KiB", "y".repeat(70_000)],
  [
    `accounts update ${NO_ACCOUNT} --name X`,
    `Cannot find account: no account has the id or e-mail ${NO_ACCOUNT}`,
  ],
  ["keys list --account a@b", "Cannot list keys: no account has the id or e-mail a@b"],
  ["accounts update a@b --name X", "Cannot find account: no account has the id or e-mail a@b"],
  ["installer clear-token", "Cannot clear token: no token is set"],
  [
    "installer set-token --expires-at 2020-01-01",
    "Cannot set token: the expiry lies in the past",
    "rpo_secret",
  ],
];
test.each(refusals)("claviger %s is refused: %s", async (command, refusal, input = "") => {
  expect(refusalOf(await line.here(command.split(" "), { input }))).toBe(refusal);
});

describe("claviger keys issue", () => {
  test("--json prints the key with exactly the promised members", async () => {
    const issued = await line.json(["keys", "issue", "--email", "Ada@Example.org", "--tier", "free"]);
    expect(Object.keys(issued)).toEqual([
      ...["id", "api_key", "user_id", "email", "tier", "mode", "expires_at", "license_id", "external_id"],
      ...["starts_on_first_use", "term_days", "latest_start"],
      ...["updates_until", "own_features", "own_entitlements"],
    ]);
    expect(issued).toMatchObject({ starts_on_first_use: false, term_days: null, latest_start: null });
    expect(issued).toMatchObject({ updates_until: null, own_features: {}, own_entitlements: {} });
    expect(issued.license_id).toBe((await line.json(["keys", "show", issued.id])).license_id);
    expect(issued).toMatchObject({ email: "ada@example.org", tier: "free", mode: "live" });
    expect(issued.id).toMatch(/^key_[0-9a-f]{32}$/);
    expect(issued.user_id).toMatch(/^usr_[0-9a-f]{32}$/);
    expect(issued.api_key).toMatch(/^svc_live_[0-9a-f]{48}$/);
    const year = new Date();
    year.setUTCFullYear(year.getUTCFullYear() + 1);
    expect(Math.abs(Date.parse(issued.expires_at) - year.getTime())).toBeLessThan(10_000);
    expect(await validate(issued.api_key)).toMatchObject({
      status: 200,
      body: { expires_at: issued.expires_at },
    });
  });

  test("prints the same for people, and says that the key is shown only once", async () => {
    const { status, out, err } = await line.here(issueArgs("--mode", "test"));
    expect(status).toBe(0);
    expect(out).toMatch(/^id {10}key_[0-9a-f]{32}\napi_key {5}svc_test_[0-9a-f]{48}\nuser_id /);
    expect(err).toBe("The key is shown only once: store it now\n");
  });

  test("accepts a name, an organization, a limit, and an expiry or none", async () => {
    const options = ["--name", "Grace", "--organization", "Navy", "--monthly-limit", "7"];
    const never = await issue(...options, "--expires-at", "never");
    expect(never.expires_at).toBe("9999-12-31T23:59:59Z");
    expect((await validate(never.api_key)).body).toMatchObject({
      name: "Grace",
      organization: "Navy",
      quota: { monthly_limit: 7, used: 0, remaining: 7 },
    });
    const dated = await issue("--expires-at", "2999-05-06T07:08:09+02:00");
    expect(dated.expires_at).toBe("2999-05-06T05:08:09Z");
  });

  test("accepts an end of updates, features and values, and prints them as the key is shown", async () => {
    const options = [
      ...["--updates-until", "2096-02-03", "--features", "no streaming, custom_models until 2097-01-01"],
      ...["--values", "region=eu, channels=64"],
    ];
    const { out } = await line.here(issueArgs(...options));
    expect(out).toEndWith(
      "updates_until     2096-02-03T23:59:59Z\n" +
        "own_features      custom_models until 2097-01-01, no streaming\n" +
        "own_entitlements  channels=64, region=eu\n",
    );
    const issued = await line.json(issueArgs(...options));
    const { updates_until, own_features, own_entitlements } = await line.json(["keys", "show", issued.id]);
    expect(issued).toMatchObject({ updates_until, own_features, own_entitlements });
    expect(Object.keys(issued.own_entitlements)).toEqual(["channels", "region"]);
  });

  test("gives the license an external id, which show, list and find print, and refuses one that is taken", async () => {
    const issued = await issue("--external-id", "order № 7");
    expect(issued.external_id).toBe("order № 7");
    expect(await line.json(["keys", "show", issued.id])).toMatchObject({ external_id: "order № 7" });
    const listed = await line.json(["keys", "list", "--external-id", "order № 7"]);
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([issued.id]);
    expect(await line.json(["keys", "list", "--external-id", "order № 8"])).toEqual([]);
    expect(refusalOf(await line.here(issueArgs("--external-id", "order № 7")))).toBe(
      "Cannot issue key: another license has this external id",
    );
  });

  const wrongIds: [what: string, externalId: string][] = [
    ["without a character", ""],
    ["with a tab", "a\tb"],
    ["with an invisible character", "a\u202eb"],
    ["of 256 characters", "x".repeat(256)],
  ];
  test.each(wrongIds)("refuses an external id %s", async (_, wrong) => {
    expect(usageErrorOf(await line.here(issueArgs("--external-id", wrong)))).toContain(
      "It must be 1 to 255 printable characters, and no API key",
    );
  });
});

describe("claviger keys list, show and find", () => {
  test("show a key's hint and never the key", async () => {
    const issued = await issue();
    const hint = toHint(issued.api_key);
    const shown = await line.json(["keys", "show", issued.id]);
    expect(shown).toMatchObject({
      id: issued.id,
      key: hint,
      state: "active",
      monthly_limit: 50_000,
      used: 0,
    });
    expect(shown.created_at).toMatch(AT);
    expect(await line.json(["keys", "find"], { input: `${issued.api_key}\n` })).toEqual(shown);
    expect(await line.json(["keys", "list", ...ALL_ROWS])).toContainEqual(shown);

    for (const args of [
      ["keys", "list", "--wide", ...ALL_ROWS],
      ["keys", "show", issued.id],
    ]) {
      const { status, out } = await line.here(args);
      expect({ status, leaks: out.includes(issued.api_key) }).toEqual({ status: 0, leaks: false });
      expect(out).toContain(hint);
    }
  });
});

describe("claviger keys list", () => {
  const issue = async (email: string) =>
    (await line.json(["keys", "issue", "--email", email, "--tier", "research", "--organization", "Lines"]))
      .id;
  const LINES = ["keys", "list", "--search", "Lines"];

  test("shows each row on one line of 80 columns, more on a wider terminal, and with --wide all columns", async () => {
    const [short, long] = [await issue("lines@example.org"), await issue("a.long.name.of@lines.example.org")];
    const at = async (columns: number) => (await line.here(LINES, { columns })).out.split("\n");
    expect(await at(80)).toEqual([
      expect.stringMatching(/^ID +EMAIL +STATE$/),
      expect.stringMatching(new RegExp(`^${short}  lines@example.org +active$`)),
      `${long}  a.long.name.of@lines.example.org  active`,
      "",
    ]);
    expect(await at(100)).toEqual([
      expect.stringMatching(/^ID +EMAIL +EXPIRES +STATE$/),
      expect.stringMatching(new RegExp(`^${short}  lines@example.org +\\d{4}-\\d\\d-\\d\\d  active$`)),
      expect.stringMatching(
        new RegExp(`^${long}  a.long.name.of@lines.example.org  \\d{4}-\\d\\d-\\d\\d  active$`),
      ),
      "",
    ]);
    const wide = (await line.here([...LINES, "--wide"])).out;
    expect(wide).toMatch(/^ID +KEY +EMAIL +TIER +MODE +USED +LIMIT +EXPIRES AT +LAST USED +STATE\n/);
    expect(wide).toContain("  research  live     0  50,000  ");
  });
});

describe("claviger keys revoke", () => {
  test("ends the key in the running service within a second, and keeps the reason", async () => {
    const { id, api_key: apiKey } = await issue();
    expect((await validate(apiKey)).status).toBe(200);
    const reason = `left in a repository: ${apiKey.slice(0, 30)}`;
    expect(await line.json(["keys", "revoke", id, "--reason", reason])).toEqual({ id, state: "revoked" });
    await until(async () => (await validate(apiKey)).status === 401);
    const [row] = await line.json(["audit", "--key", id, "--limit", "1"]);
    expect(row).toMatchObject({
      actor: "command:olga",
      action: "key.revoke",
      key_id: id,
      before: { state: "active" },
      after: { state: "revoked" },
      reason: "left in a repository: [key]",
    });
  });
});

describe("claviger accounts", () => {
  test("lists the accounts in columns, with their number of keys", async () => {
    await line.json(["keys", "issue", "--email", "b@accounts.example", "--tier", "free", "--name", "Bea"]);
    const { out } = await line.here(["accounts", "list", ...ALL_ROWS]);
    expect(out).toMatch(/^ID +EMAIL +NAME +ORGANIZATION +KEYS +CREATED AT\n/);
    expect(out).toMatch(/b@accounts\.example +Bea +- +1 +\d{4}/);
  });

  test("updates name and organization, by e-mail or id, and a running service sees it", async () => {
    const { api_key: apiKey, user_id: id, email } = await issue();
    await validate(apiKey);
    const shown = await line.json(["accounts", "update", email.toUpperCase(), "--name", "Cem"]);
    const names = { name: "Cem", organization: "" };
    expect(shown).toEqual({ id, email, ...names, former_email: null, changed: true });
    const { status, out } = await line.here(["accounts", "update", id, "--organization", "Works"]);
    expect({ status, out }).toEqual({
      status: 0,
      out: `id            ${id}\nemail         ${email}\nname          Cem\norganization  Works\n`,
    });
    const isSeen = async () => (await validate(apiKey)).body.organization === "Works";
    await until(isSeen);
  });

  test("updates the e-mail, says what becomes of the old one, and a running service answers with it", async () => {
    const { api_key: apiKey, user_id: id, email } = await issue();
    await validate(apiKey);
    const { out, err } = await line.here(["accounts", "update", email, "--email", "cem@works.example"]);
    expect(out).toBe(
      `id            ${id}\nemail         cem@works.example\nname          cem@works.example\n` +
        `organization  -\nformer_email  ${email}\n`,
    );
    expect(err).toContain(`${email} names no account now: a key that is issued for it gets a new account`);
    await until(async () => (await validate(apiKey)).body.email === "cem@works.example");
    const [row] = await line.json(["audit", "--account", id, "--limit", "1"]);
    expect(row).toMatchObject({ before: { email }, after: { email: "cem@works.example" } });
  });

  test("moves a license after a question that names what goes along, and a running service sees it", async () => {
    const { api_key: apiKey, id, email } = await issue();
    const { license_id: license } = await line.json(["keys", "show", id]);
    await validate(apiKey);
    const args = ["licenses", "move", license, "--to", "buyer@works.example"];
    const refused = await line.here([...args, "--yes"]);
    expect(refused.err).toContain(
      "no account has the e-mail buyer@works.example; add --new-account if an account with it is to be made",
    );
    const what = `the license from ${email} to the new account buyer@works.example, with 1 key and 0 machines`;
    expect((await line.here([...args, "--new-account", "--dry-run"])).out).toBe(`Would move ${what}\n`);
    expect((await validate(apiKey)).body.email).toBe(email);
    expect((await line.here([...args, "--new-account", "--yes"])).out).toBe(`Moved ${what}\n`);
    await until(async () => (await validate(apiKey)).body.email === "buyer@works.example");
  });
});

describe("claviger models", () => {
  const argsFor = (tier: string, name: string, ...more: string[]) => [
    ...["models", "add", "--name", name, "--version", "1.0.0", "--type", "SvcLDA", "--n-features", "4"],
    ...["--n-classes", "2", "--requires-license", tier, "--paradigm", "p300", "--size-mb", "0.5"],
    ...["--url", "https://models.example/m.onnx", "--sha256", "ab".repeat(32), ...more],
  ];
  const args = (name: string, ...more: string[]) => argsFor("free", name, ...more);

  test("adds a model to the list and removes it", async () => {
    expect(await line.json(args("lda_one", "--metadata", '{"accuracy":0.9}'))).toEqual({
      name: "lda_one",
      version: "1.0.0",
      requires_license: "free",
    });
    expect(await line.json(["models", "list"])).toEqual([
      {
        name: "lda_one",
        version: "1.0.0",
        type: "SvcLDA",
        paradigm: "p300",
        n_features: 4,
        n_classes: 2,
        size_mb: 0.5,
        requires_license: "free",
        owner: null,
        download_url: "https://models.example/m.onnx",
        checksum: `sha256:${"ab".repeat(32)}`,
        metadata: { accuracy: 0.9 },
      },
    ]);
    expect(refusalOf(await line.here(args("lda_one")))).toContain("a version never changes");
    expect((await line.here(["models", "list"])).out).toContain("lda_one");
    const removed = { status: 0, out: "Removed lda_one 1.0.0 from the list\n", err: "" };
    expect(await line.here(["models", "remove", "lda_one"])).toEqual(removed);
    expect((await line.here(["models", "list"])).out).toBe("none\n");
    expect(refusalOf(await line.here(["models", "remove", "lda_one"]))).toContain("no model named lda_one");
  });

  test("refuses to add a model for a missing owner, or a custom model for too low a tier", async () => {
    const owner = ["--owner", NO_ACCOUNT];
    expect(usageErrorOf(await line.here(args("own", ...owner)))).toContain(
      "requires commercial or enterprise; give --requires-license commercial",
    );
    const ended = await line.here(argsFor("commercial", "own", ...owner));
    expect(refusalOf(ended)).toBe(`Cannot add model: no account has the id or e-mail ${NO_ACCOUNT}`);
  });

  test("accepts an owner's e-mail or id in add", async () => {
    const { email, user_id: id } = await issue();
    for (const [index, owner] of [email, id].entries()) {
      await line.json(argsFor("commercial", `owned_${index}`, "--owner", owner));
      const models: { name: string; owner: string }[] = await line.json(["models", "list"]);
      expect(models.find(({ name }) => name === `owned_${index}`)?.owner).toBe(id);
      expect(await line.here(["models", "remove", `owned_${index}`])).toMatchObject({ status: 0 });
    }
  });
});

describe("claviger installer", () => {
  test("reads a token by set-token for the service to hand out, until clear-token removes it", async () => {
    const { api_key: apiKey } = await issue();
    const ask = async () =>
      (await fetch(`${service.url}/v1/installer/repo-token`, { headers: { "x-api-key": apiKey } })).json();
    expect(await ask()).toMatchObject({ code: "NOT_CONFIGURED" });
    const set = await line.here(["installer", "set-token"], { input: "rpo_secret\n" });
    expect(set).toEqual({ status: 0, out: "The repository token is set\n", err: "" });
    expect(await ask()).toMatchObject({ success: true, repo_token: "rpo_secret", expires_at: null });

    const dated = ["installer", "set-token", "--expires-at", "2999-01-01"];
    expect(await line.json(dated, { input: "rpo_other" })).toEqual({
      set: true,
      expires_at: "2999-01-01T23:59:59Z",
    });
    expect(await ask()).toMatchObject({ repo_token: "rpo_other", expires_at: "2999-01-01T23:59:59Z" });
    const { out } = await line.here(["audit", "--limit", "5"]);
    expect(out).toContain("installer.set_token");
    expect(out).not.toContain("rpo_");

    expect(await line.json(["installer", "clear-token"])).toEqual({ cleared: true });
    expect(await ask()).toMatchObject({ code: "NOT_CONFIGURED" });
  });

  test("refuses in set-token another secret than the service's", async () => {
    const env = { CLAVIGER_SECRET: createHash("sha256").update("another").digest("hex") };
    const ended = await line.here(["installer", "set-token"], { input: "rpo_secret", env });
    expect(refusalOf(ended)).toStartWith("Cannot use this secret: the database was sealed with another one");
  });
});

describe("claviger audit", () => {
  test("prints one line per row, whatever text a client gave as the reason", async () => {
    const { api_key: apiKey, id } = await issue();
    const reason = "first\nsecond\u001b[31m";
    await service.post("/v1/auth/revoke", { api_key: apiKey, reason });
    const { out } = await line.here(["audit", "--key", id, "--limit", "1"]);
    expect(out.split("\n")).toHaveLength(3);
    expect(out).toContain("first\\nsecond\\u001b[31m");
    expect(await line.json(["audit", "--key", id, "--limit", "1"])).toMatchObject([{ reason }]);
  });

  test("says in words what changed, on lines that fit a terminal of 80 columns and are never empty", async () => {
    const { id } = await issue();
    await line.here(["keys", "renew", id, "--expires-at", "2031-05-31", "--reason", "has paid again"]);
    const { out } = await line.here(["audit", "--key", id, "--limit", "1"], { columns: 80 });
    const [titles, row = "", ...details] = out.trimEnd().split("\n");
    // Numbers are aligned to the right, and so is their title.
    const [number = ""] = /^\d+/.exec(row) ?? [];
    expect(titles).toMatch(new RegExp(`^${"ID".padStart(number.length)}  AT +ACTOR +ACTION +DETAILS$`));
    expect(row).toMatch(/ license\.renew$/);
    expect(details.join("\n")).toMatch(
      /^ {2}expiry from \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ to\s+2031-05-31T23:59:59Z/,
    );
    expect(details.map((text) => text.trim()).join(" ")).toMatch(
      new RegExp(`; ${id}; lic_\\w{32}; usr_\\w{32}; reason: has paid again$`),
    );
    for (const text of details) expect(text.length).toBeLessThanOrEqual(80);
  });
});

describe("claviger migrate", () => {
  test("shows the applied migrations, with and without --status", async () => {
    const applied = await line.json(["migrate", "--status"]);
    expect(applied[0]).toEqual({ number: 1, name: "0001_licensing", applied_at: expect.stringMatching(AT) });
    expect(await line.json(["migrate"])).toEqual(applied);
    expect((await line.here(["migrate", "--status"])).out).toMatch(
      /^NUMBER +NAME +APPLIED AT\n +1 +0001_lic/,
    );
  });
});

describe("claviger keys import", () => {
  const lines = (count: number, tag: string) =>
    Array.from({ length: count }, (_, index) => {
      const apiKey = `svc_live_${createHash("sha256").update(`${tag}${index}`).digest("hex").slice(0, 48)}`;
      return { api_key: apiKey, email: `${tag}-${index}@example.org`, tier: "commercial", used: index };
    });
  const file = (name: string, rows: readonly object[]) =>
    line.write(name, rows.map((row) => JSON.stringify(row)).join("\n"));

  test("imports keys and hashes with their use, whatever line ends and marks the file has", async () => {
    const rows = lines(2, "imported");
    const first = rows[0]!;
    const second = rows[1]!;
    const hashed = {
      sha256: createHash("sha256").update(second.api_key).digest("hex"),
      mode: "live",
      email: second.email,
      tier: "free",
      monthly_limit: 5,
      used: 5,
      expires_at: "2999-01-01T23:59:59Z",
    };
    const text = `\ufeff${JSON.stringify(first)}\r\n\r\n${JSON.stringify(hashed)}\r\n`;
    expect(await line.json(["keys", "import", line.write("mixed.jsonl", text)])).toEqual({ imported: 2 });
    expect((await validate(first.api_key)).body).toMatchObject({ license_type: "commercial" });
    const refused = { status: 429, body: { code: "QUOTA_EXCEEDED" } };
    expect(await validate(second.api_key)).toMatchObject(refused);
  });

  test("--dry-run refuses in the same cases, and imports nothing", async () => {
    const rows = lines(2, "rehearsed");
    const dry = ["keys", "import", "--dry-run", file("dry.jsonl", rows)];
    expect(await line.here(dry)).toEqual({ status: 0, out: "Would import 2 keys\n", err: "" });
    expect(await line.json(dry)).toEqual({ imported: 2, dry_run: true });
    expect((await validate(rows[0]!.api_key)).status).toBe(401);
    expect(await line.json(["accounts", "list", "--search", "rehearsed"])).toEqual([]);
    await line.json(["keys", "import", file("real.jsonl", rows)]);
    const again = ["keys", "import", "--dry-run", file("again.jsonl", [...lines(1, "other"), rows[1]!])];
    expect(refusalOf(await line.here(again))).toStartWith(
      "Cannot import keys: line 2 holds a key that is known",
    );
  });

  test("reads standard input for -", async () => {
    const [row] = lines(1, "piped");
    const piped = await line.here(["keys", "import", "-"], { input: `${JSON.stringify(row)}\n` });
    expect(piped).toEqual({ status: 0, out: "Imported 1 key\n", err: "" });
    expect((await validate(row!.api_key)).status).toBe(200);
  });

  test("imports all keys or none", async () => {
    const rows = lines(3, "atomic");
    const twice = line.write(
      "twice.jsonl",
      `\n${[...rows, rows[1]].map((row) => JSON.stringify(row)).join("\n\n")}`,
    );
    expect(refusalOf(await line.here(["keys", "import", twice]))).toBe(
      "Cannot import keys: line 8 holds the same key as line 4; take one of them out",
    );
    expect((await validate(rows[1]!.api_key)).status).toBe(401);
    const wrong = file("wrong.jsonl", [...rows, { ...rows[0], tier: "gold" }]);
    expect(refusalOf(await line.here(["keys", "import", wrong]))).toContain("line 4: tier must be one of");
    expect((await validate(rows[1]!.api_key)).status).toBe(401);
  });

  test("shows a progress bar only on a terminal", async () => {
    const quiet = await line.here(["keys", "import", file("quiet.jsonl", lines(3, "quiet"))]);
    expect(quiet).toEqual({ status: 0, out: "Imported 3 keys\n", err: "" });
    expect(await line.here(["keys", "import", file("one.jsonl", lines(1, "one"))])).toMatchObject({
      out: "Imported 1 key\n",
    });
    const path = file("bar.jsonl", lines(6000, "bar"));
    const { out, err } = await line.here(["keys", "import", path], { isTerminal: true });
    expect(out).toBe("Imported 6,000 keys\n");
    expect(err).toMatch(/^\r\[#+ +\] 5000 of 6000\r\[#{40}\] 6000 of 6000\n$/);
  });

  test("changes nothing if a signal stops it", async () => {
    const rows = lines(3, "stopped");
    const path = file("stopped.jsonl", rows);
    const ended = await line.here(["keys", "import", path], { signal: "SIGINT" });
    expect(refusalOf(ended)).toBe("Stopped by SIGINT: nothing was changed");
    expect((await validate(rows[0]!.api_key)).status).toBe(401);
  });
});
