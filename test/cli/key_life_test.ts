/** Tests every change of a key by command while a service runs: each change is in force there within a second. */
import { beforeAll, describe, expect, test } from "bun:test";
import { hash } from "node:crypto";
import { DAY_MS, toDay, toTimestamp } from "../../src/base/calendar.ts";
import { toHint } from "../../src/licensing/keys/mod.ts";
import { until } from "../support/until.ts";
import {
  createCommandLine,
  createIssuer,
  type Issued,
  type RunOptions,
  refusalOf,
  usageErrorOf,
} from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line, service } = useServing([], {
  env: { CLAVIGER_LIMIT_VALIDATE: "0", CLAVIGER_LIMIT_ANALYTICS: "0" },
});

const issue = createIssuer(line);

const validate = (apiKey: string) => service.post("/v1/auth/validate", { api_key: apiKey });
/** Sends so many inferences, which use the quota of the key's license. */
async function use(apiKey: string, inferences: number): Promise<void> {
  for (let count = 0; count < inferences; count++)
    await service.post("/v1/analytics/log", { api_key: apiKey, event_type: "inference" });
}

/** Waits until validate answers with these fields: a change by a command takes up to a second. */
async function expectSoon(apiKey: string, expected: object): Promise<void> {
  await until(
    async () => {
      const { status, body } = await validate(apiKey);
      return Bun.deepMatch(expected, { status, ...body });
    },
    { what: `validate answers ${JSON.stringify(expected)}` },
  );
}

async function auditOf(id: string): Promise<{ action: string; reason: string | null }[]> {
  return await line.json(["audit", "--key", id]);
}

/** Keys that expire by the machine's clock while other tests run, one for each test of an expired key. */
const expiring: { readonly key: Issued; readonly expiresAt: Date }[] = [];
beforeAll(async () => {
  for (let count = 0; count < 4; count++) {
    const expiresAt = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 2_000);
    expiring.push({ key: await issue("--expires-at", expiresAt.toISOString()), expiresAt });
  }
});

/** Returns a key of its own for each caller, after it has expired. */
async function expired(): Promise<{ readonly key: Issued; readonly expiresAt: Date }> {
  const next = expiring.pop();
  if (next === undefined) throw new Error("Each key is already used by another test");
  await Bun.sleep(next.expiresAt.getTime() - Date.now() + 10);
  return next;
}

const UNKNOWN = `key_${"0".repeat(32)}`;
const REVOKED = "the key is revoked for good; replace it with a new key with `claviger keys replace KEY`";

describe("claviger's commands that change a key refuse", () => {
  /** In commands and sentences, KEY is the id of a key that was just issued, NEXT that of the key that replaced it. */
  const run = (command: string, { id }: Issued) => line.here(command.replace("KEY", id).split(" "));

  const changes: [what: string, command: string, afterRevocation: string][] = [
    ["suspend key", "keys suspend KEY", REVOKED],
    ["resume key", "keys resume KEY", REVOKED],
    ["rotate key", "keys rotate KEY", REVOKED],
    ["renew license", "keys renew KEY --expires-at never", REVOKED],
    ["change tier", "keys tier KEY free", REVOKED],
    ["change monthly limit", "keys limit KEY 7", REVOKED],
    ["change machines", "keys machines KEY --max-machines 7", REVOKED],
    ["revoke key", "keys revoke KEY", "it is revoked already"],
    ["revoke key", "keys revoke KEY --dry-run", "it is revoked already"],
  ];
  test.each(changes)("to %s if it is unknown, and if it is revoked: %s", async (what, command, why) => {
    const key = await issue();
    await line.json(["keys", "revoke", key.id]);
    expect(refusalOf(await run(command, key))).toBe(`Cannot ${what}: ${why.replace("KEY", key.id)}`);
    expect(refusalOf(await run(command, { ...key, id: UNKNOWN }))).toBe(
      `Cannot ${what}: there is no key ${UNKNOWN}; see \`claviger keys list\``,
    );
  });

  const states: [command: string, before: string, refusal: string][] = [
    ["keys resume KEY", "keys show KEY", "Cannot resume key: it is not suspended"],
    ["keys suspend KEY", "keys suspend KEY", "Cannot suspend key: it is suspended already"],
    [
      "keys rotate KEY",
      "keys suspend KEY",
      "Cannot rotate key: it is suspended; `claviger keys resume KEY` comes first",
    ],
    [
      "keys rotate KEY",
      "keys rotate KEY",
      "Cannot rotate key: it was replaced already, by NEXT; rotate that one with `claviger keys rotate NEXT`",
    ],
    [
      "keys replace KEY",
      "keys show KEY",
      "Cannot replace key: it is not revoked; rotate it instead with `claviger keys rotate KEY`",
    ],
  ];
  test.each(states)("%s after %s", async (command, before, refusal) => {
    const key = await issue();
    const next = JSON.parse((await run(`${before} --json`, key)).out).id;
    const expected = refusal.replaceAll("KEY", key.id).replaceAll("NEXT", next);
    expect(refusalOf(await run(command, key))).toBe(expected);
  });
});

describe("claviger keys suspend and resume", () => {
  test("make the service refuse the key and accept it again, and give the reason in the audit log", async () => {
    const key = await issue();
    expect((await validate(key.api_key)).status).toBe(200);
    await line.json(["keys", "suspend", key.id, "--reason", "invoice open"]);
    await expectSoon(key.api_key, { status: 401, code: "INVALID_KEY" });
    await line.json(["keys", "resume", key.id]);
    await expectSoon(key.api_key, { status: 200 });
    const [active, suspended] = [{ state: "active" }, { state: "suspended" }];
    expect(await auditOf(key.id)).toMatchObject([
      { action: "key.resume", before: suspended, after: active, reason: null },
      { action: "key.suspend", before: active, after: suspended, reason: "invoice open" },
      { action: "key.issue", before: null, reason: null },
    ]);
  });
});

describe("claviger keys renew", () => {
  test("brings an expired key back", async () => {
    const { key } = await expired();
    expect((await validate(key.api_key)).body.code).toBe("KEY_EXPIRED");
    await line.json(["keys", "renew", key.id, "--expires-at", "2099-01-01"]);
    await expectSoon(key.api_key, { status: 200, expires_at: "2099-01-01T23:59:59Z" });
  });

  test("--days counts from the present expiry, or from now if that has passed, and changes no license without an end", async () => {
    const key = await issue("--expires-at", "2099-01-01");
    const renew = (id: string) => line.json(["keys", "renew", id, "--days", "30"]);
    expect(await renew(key.id)).toMatchObject({ expires_at: "2099-01-31T23:59:59Z", changed: true });
    expect(await renew(key.id)).toMatchObject({ expires_at: "2099-03-02T23:59:59Z" });
    const { key: past } = await expired();
    const beganMs = Date.now();
    const { expires_at: until } = await renew(past.id);
    // To the second. The expiry that has passed lies before that.
    const fromMs = Date.parse(until) - 30 * 86_400_000;
    expect(fromMs).toBeWithin(beganMs - (beganMs % 1_000), Date.now() + 1);
    await line.json(["keys", "renew", key.id, "--expires-at", "never"]);
    expect(await renew(key.id)).toMatchObject({ changed: false });
    for (const args of [[], ["--days", "30", "--expires-at", "never"]])
      expect(usageErrorOf(await line.here(["keys", "renew", key.id, ...args]))).toStartWith(
        "give either --expires-at or --days",
      );
  });

  test("reports for a replaced key the state of the license, and the key that has it now", async () => {
    const old = await issue();
    const { id } = await line.json(["keys", "rotate", old.id, "--overlap", "0d"]);
    const renew = ["keys", "renew", old.id, "--expires-at", "2099-01-01"];
    expect(await line.json(renew)).toMatchObject({
      state: "expired",
      license_expires_at: "2099-01-01T23:59:59Z",
      replaced_by: id,
    });
    const { status, err } = await line.here(["keys", "limit", old.id, "9"]);
    expect([status, err]).toEqual([
      0,
      `Changed: monthly limit from 50,000 to 9\nThis key was replaced by ${id}: the change applies to the license of both keys, which expires at 2099-01-01T23:59:59Z; ` +
        "the expiry of this key stays as it was\n",
    ]);
    expect(await line.json(["keys", "show", id])).toMatchObject({ expires_at: "2099-01-01T23:59:59Z" });
    const next = await line.here(["keys", "limit", id, "8"]);
    expect([next.status, next.err]).toEqual([0, "Changed: monthly limit from 9 to 8\n"]);
  });
});

describe("claviger keys limit", () => {
  test("replaces the tier's limit by the license's own, and restores it with none", async () => {
    const key = await issue();
    expect(await line.json(["keys", "limit", key.id, "7"])).toMatchObject({ monthly_limit: 7 });
    await expectSoon(key.api_key, { quota: { monthly_limit: 7, remaining: 7 } });
    await line.json(["keys", "limit", key.id, "none"]);
    await expectSoon(key.api_key, { quota: { monthly_limit: 50_000 } });
  });
});

describe("claviger, a limit that is used up already", () => {
  test("is reported with the number of keys that are refused from now on", async () => {
    const key = await issue();
    await line.json(["keys", "rotate", key.id]);
    await use(key.api_key, 3);
    const refused =
      /^The quota is used up: the service refuses all keys of the license from now on until \d{4}-\d\d-01, 2 that are not revoked$/m;
    const enough = await line.here(["keys", "limit", key.id, "4"]);
    expect(enough.err).not.toMatch(refused);
    const { err } = await line.here(["keys", "limit", key.id, "3"]);
    expect(err).toContain(
      "Changed: monthly limit from 4 to 3; quota of the month from 1 left to used up (3 used)\n",
    );
    expect(err).toMatch(refused);
    await expectSoon(key.api_key, { status: 429 });
    // It is used up before as well.
    expect((await line.here(["keys", "limit", key.id, "2"])).err).not.toMatch(refused);
  });
});

describe("claviger keys feature", () => {
  const once = "give the end once: with --until for all named features, or behind each name";
  const alone = "with --as-tier give names alone, such as streaming";
  test.each([
    ["an end at two places", ["a until 2097-01-01", "--until", "2098-01-01"], once],
    ["an end of one of two features, and --until", ["a until 2097-01-01, b", "--until", "2098-01-01"], once],
    ["no with --as-tier", ["no a", "--as-tier"], alone],
    ["an end with --as-tier", ["b, a until 2097-01-01", "--as-tier"], alone],
  ])("refuses %s", async (_, args, why) => {
    const key = await issue("--features", "a until 2096-01-01");
    expect(usageErrorOf(await line.here(["keys", "feature", key.id, ...args]))).toStartWith(why);
    const shown = await line.json(["keys", "show", key.id]);
    expect(shown.own_features).toEqual({ a: { granted: true, until: "2096-01-01T23:59:59Z" } });
  });
});

describe("claviger keys external-id", () => {
  test("gives the license another name, removes it, and refuses one that another license has", async () => {
    const [key, other] = [await issue("--external-id", "order-1"), await issue("--external-id", "order-2")];
    const name = (text: string) => line.json(["keys", "external-id", key.id, text]);
    expect(await name("order-3")).toMatchObject({
      ...{ external_id: "order-3", changed: true, before: { external_id: "order-1" } },
    });
    expect(await name("order-3")).toMatchObject({ changed: false, before: {} });
    const { err } = await line.here(["keys", "external-id", key.id, "order-4"]);
    expect(err).toBe("Changed: external id from order-3 to order-4\n");
    expect(refusalOf(await line.here(["keys", "external-id", key.id, "order-2"]))).toBe(
      "Cannot change license: another license has this external id",
    );
    expect(await line.json(["keys", "show", other.id])).toMatchObject({ external_id: "order-2" });
    await line.json(["keys", "revoke", key.id]);
    expect(await name("none")).toMatchObject({ external_id: null, changed: true });
    expect(await line.json(["keys", "show", key.id])).toMatchObject({ external_id: null });
  });
});

describe("claviger licenses show and accounts show", () => {
  test("print a license with its keys and an account with its erasure, and refuse unknown ones", async () => {
    const key = await issue("--external-id", "shown-1");
    const { license_id: license, user_id: account } = await line.json(["keys", "show", key.id]);
    expect(await line.json(["licenses", "show", license])).toMatchObject({
      ...{ id: license, user_id: account, external_id: "shown-1", used: 0 },
      keys: [{ id: key.id, mode: "live", state: "active" }],
    });
    expect((await line.here(["licenses", "show", license])).out).toContain(`${key.id} (live, active)\n`);
    const shown = { id: account, email: key.email, keys: 1, erasure: null };
    for (const who of [account, key.email])
      expect(await line.json(["accounts", "show", who])).toMatchObject(shown);
    await line.json(["accounts", "erase", account, "--revoke-keys"]);
    expect((await line.json(["accounts", "show", account])).erasure).toMatchObject({ is_complete: true });
    expect((await line.here(["accounts", "show", account])).out).toContain("\nerasure_is_complete ");
    expect(refusalOf(await line.here(["accounts", "show", key.email]))).toBe(
      `Cannot show account: no account has the id or e-mail ${key.email}`,
    );
    const none = `lic_${"0".repeat(32)}`;
    expect(refusalOf(await line.here(["licenses", "show", none]))).toContain("Cannot show license: ");
  });
});

describe("claviger keys machines", () => {
  test("sets, changes and removes the machine limit and the seat minutes", async () => {
    const key = await issue("--max-machines", "30", "--seat-minutes", "15");
    expect(await line.json(["keys", "show", key.id])).toMatchObject({ max_machines: 30, seat_minutes: 15 });
    const machines = (...args: string[]) => line.json(["keys", "machines", key.id, ...args]);
    const places = (max_machines: number | null, seat_minutes: number | null) => ({
      ...{ max_machines, seat_minutes, changed: true },
    });
    expect(await machines("--max-machines", "29")).toMatchObject(places(29, 15));
    expect(await machines("--seat-minutes", "none")).toMatchObject(places(29, null));
    expect(await machines("--max-machines", "5", "--seat-minutes", "60")).toMatchObject(places(5, 60));
    expect(await machines("--max-machines", "none")).toMatchObject(places(null, null));
    const { out } = await line.here(["audit", "--key", key.id, "--limit", "2"]);
    expect(out).toContain("license.machines  machine limit was 5; seat minutes was 60;");
  });

  test("says how many places are taken, also if the new limit is below that", async () => {
    const key = await issue("--max-machines", "5");
    for (const fingerprint of ["workstation-1", "workstation-2"])
      await service.post("/v1/machines/activate", { api_key: key.api_key, fingerprint });
    const { err } = await line.here(["keys", "machines", key.id, "--max-machines", "1"]);
    expect(err).toContain(
      "Changed: machines from 5 node-locked machines to 1 node-locked machine; places taken from 2 of 5 to 2 of 1\n",
    );
  });

  test("shows the places in the explanation of a key whose machines are counted", async () => {
    const whyOf = async (...args: string[]) =>
      (await line.here(["keys", "why", (await issue(...args)).id])).out;
    expect(await whyOf()).not.toContain("machines ");
    expect(await whyOf("--max-machines", "1")).toContain("\nmachines     1 node-locked machine\n");
    expect(await whyOf("--max-machines", "30", "--seat-minutes", "15")).toContain(
      "\nmachines     30 floating seats of 15 minutes\n",
    );
  });

  test("refuses seat minutes without a machine limit", async () => {
    const key = await issue();
    expect(refusalOf(await line.here(["keys", "machines", key.id, "--seat-minutes", "15"]))).toBe(
      "Cannot change machines: seat minutes need a machine limit, so give both",
    );
  });
});

describe("claviger, a change that changes nothing", () => {
  const changes: [args: (id: string) => string[], what: string, changed?: string][] = [
    [(id) => ["keys", "tier", id, "commercial"], "tier"],
    [(id) => ["keys", "limit", id, "7"], "monthly limit"],
    [(id) => ["keys", "limit", id, "none"], "monthly limit"],
    [(id) => ["keys", "machines", id, "--max-machines", "7"], "machine settings", "machines"],
    [(id) => ["keys", "renew", id, "--expires-at", "2099-01-01"], "expiry"],
  ];

  for (const [args, what, changed = what] of changes) {
    test(`is reported, and leaves no row in the audit log: ${args("ID").join(" ")}`, async () => {
      const key = await issue("--monthly-limit", "9");
      const first = await line.here(args(key.id));
      expect([first.status, first.err]).toEqual([0, expect.stringContaining(`Changed: ${changed} from `)]);
      const rows = await auditOf(key.id);
      const again = await line.here(args(key.id));
      expect(again).toEqual({
        ...first,
        err: `Nothing changed: the license has ${what.endsWith("s") ? "these" : "this"} ${what} already\n`,
      });
      expect(await line.json(args(key.id))).toMatchObject({ changed: false });
      expect(await auditOf(key.id)).toEqual(rows);
    });
  }

  test("is reported for an account's name and organization, and for an erased account", async () => {
    const key = await issue("--name", "Ada");
    const update = (name: string) => ["accounts", "update", key.email, "--name", name, "--organization", ""];
    expect(await line.json(update("Ada"))).toMatchObject({ name: "Ada", changed: false });
    expect((await line.here(update("Ada"))).err).toBe(
      "Nothing changed: the account has these values already\n",
    );
    expect(await line.json(update("Grace"))).toMatchObject({ name: "Grace", changed: true });
    await line.json(["keys", "revoke", key.id]);
    const { id } = await line.json(["accounts", "erase", key.email]);
    expect((await line.here(["accounts", "erase", id])).out).toBe(
      `Nothing changed: ${id} is erased already\n`,
    );
    const rows: { action: string }[] = await line.json(["audit", "--account", id]);
    const actions = ["account.erase", "key.revoke", "account.update", "key.issue"];
    expect(rows.map(({ action }) => action)).toEqual(actions);
  });
});

describe("claviger keys revoke and accounts erase", () => {
  const terminal = { isTyped: true, isTerminal: true, env: { NO_COLOR: "1" } };
  const stateOf = async (id: string) => (await line.json(["keys", "show", id])).state;

  test("ask at a terminal, and change nothing unless the answer is yes", async () => {
    const key = await issue();
    const revoke = (input: string) => line.here(["keys", "revoke", key.id], { ...terminal, input });
    const hint = toHint(key.api_key);
    const question =
      `Revoke ${key.id} (${hint}) of ${key.email}? It is active, and no command can undo this. ` +
      "Type yes to go on: ";
    for (const input of ["", "\n", "no\n", "yes, please\n"]) {
      // Ctrl-D ends the question without a new line.
      const end = input === "" ? "\n" : "";
      const err = `${question}${end}claviger: Nothing was changed: the answer was not yes\n`;
      expect(await revoke(input)).toEqual({ status: 1, out: "", err });
    }
    expect(await stateOf(key.id)).toBe("active");
    expect(await revoke("yes\n")).toEqual({ status: 0, out: `Revoked ${key.id}\n`, err: question });

    const erase = (input: string) => line.here(["accounts", "erase", key.email], { ...terminal, input });
    const refused = await erase("n\n");
    expect(refused).toMatchObject({ status: 1, out: "" });
    expect(refused.err).toMatch(/^Erase usr_\w+ \(owner-\d+@example.org\)\? .*claviger: Nothing was changed/);
    expect(await erase("Yes\n")).toMatchObject({ status: 0, out: expect.stringMatching(/^Erased usr_/) });
  });

  const unasked: [how: string, more: string[], options: RunOptions][] = [
    ["with --yes", ["--yes"], terminal],
    ["without a terminal for the question", [], { isTyped: true }],
    ["without a terminal for the answer", [], { isTerminal: true }],
  ];
  test.each(unasked)("do not ask %s", async (_, more, options) => {
    const key = await issue();
    const done = { status: 0, err: "" };
    expect(await line.here(["keys", "revoke", key.id, ...more], options)).toMatchObject(done);
    expect(await line.here(["accounts", "erase", key.email, ...more], options)).toMatchObject(done);
  });

  test("say with --revoke-keys how many keys they revoke, ask once, and revoke them", async () => {
    const key = await issue();
    await line.json(["keys", "issue", "--email", key.email, "--tier", "free"]);
    const erase = ["accounts", "erase", key.email, "--revoke-keys"];
    expect((await line.here([...erase, "--dry-run"])).out).toMatch(
      /^Would erase usr_.*, which has 2 keys to revoke\n$/,
    );
    expect(await stateOf(key.id)).toBe("active");
    const erased = await line.here(erase, { ...terminal, input: "yes\n" });
    expect(erased.err).toMatch(
      /^Erase usr_\w+ \(.*\) and revoke 2 keys\? No command brings back what is removed/,
    );
    expect(erased.out).toMatch(/^Erased usr_\w+ and revoked 2 keys\n$/);
    expect(await stateOf(key.id)).toBe("revoked");
  });

  test("report by --dry-run the planned change, refuse as without it, and change nothing", async () => {
    const key = await issue();
    const revoke = ["keys", "revoke", key.id, "--dry-run"];
    expect(await line.here(revoke, terminal)).toEqual({
      status: 0,
      out: `Would revoke ${key.id} (${toHint(key.api_key)}) of ${key.email}: it is active\n`,
      err: "",
    });
    expect(await line.json(revoke)).toEqual({ id: key.id, state: "active", dry_run: true });
    expect(await stateOf(key.id)).toBe("active");
    const erase = ["accounts", "erase", key.email, "--dry-run"];
    expect(refusalOf(await line.here(erase))).toContain("a key of it is not revoked");
    await line.json(["keys", "revoke", key.id]);
    expect((await line.here(erase)).out).toMatch(/^Would erase usr_\w+ \(.*\), which has 1 revoked key\n$/);
    expect(await line.json(["keys", "show", key.id])).toMatchObject({ email: key.email });
  });
});

describe("claviger, a command that ends a key", () => {
  test("says before and after which signed licenses and places stay, as the console does", async () => {
    const key = await issue("--max-machines", "3");
    for (const [fingerprint, days] of Object.entries({ "workstation-1": "20", "workstation-2": "30" })) {
      const file = ["--fingerprint", fingerprint, "--days", days, "--yes"];
      expect((await line.here(["licenses", "export", key.id, ...file])).status).toBe(0);
    }
    const last = toDay(new Date(Date.now() + 30 * DAY_MS));
    const stays = [
      `2 signed licenses stay valid without a network, the last until ${last}.`,
      "Machines keep their places: 2 of 3 are taken.",
    ].join(" ");
    const ran = async (...args: string[]) => await line.here(["keys", ...args]);
    expect(await ran("revoke", key.id, "--dry-run")).toEqual({
      status: 0,
      out: `Would revoke ${key.id} (${toHint(key.api_key)}) of ${key.email}: it is active\n`,
      err: `${stays}\n`,
    });
    expect((await ran("suspend", key.id)).err).toBe(`${stays}\n`);
    expect((await ran("resume", key.id)).err).toBe("");
    expect((await ran("rotate", key.id)).err).toEndWith(`Of the old key: ${stays}\n`);
    const terminal = { isTyped: true, isTerminal: true, env: { NO_COLOR: "1" } };
    const asked = await line.here(["keys", "revoke", key.id], { ...terminal, input: "no\n" });
    expect(asked.err).toContain(`no command can undo this. ${stays} Type yes to go on: `);
    expect(await line.json(["keys", "show", key.id])).toMatchObject({ state: "active" });
    expect((await ran("revoke", key.id)).err).toBe(`${stays}\n`);
  });
});

describe("claviger keys replace", () => {
  test("issues a key of the same license, whose mode, limits, external id, expiry and use stay", async () => {
    const old = await issue(...["--mode", "test", "--monthly-limit", "9", "--external-id", "order-replaced"]);
    const event = { api_key: old.api_key, event_type: "inference" };
    expect(await service.post("/v1/analytics/log", event)).toMatchObject({ status: 202 });
    const before = await line.json(["keys", "show", old.id]);
    await line.json(["keys", "revoke", old.id]);
    const made = await line.json(["keys", "replace", old.id, "--reason", "was leaked"]);
    expect(made).toEqual({
      id: made.id,
      api_key: expect.stringMatching(/^svc_test_/),
      replaces: old.id,
    });
    expect(await line.json(["keys", "show", made.id])).toEqual({
      ...before,
      id: made.id,
      key: expect.stringContaining("svc_test_"),
      used: 1,
      created_at: expect.any(String),
      last_used_at: null,
    });
    expect((await validate(made.api_key)).status).toBe(200);
    await expectSoon(old.api_key, { status: 401 });
    expect((await line.json(["audit", "--key", old.id]))[0]).toMatchObject({
      action: "key.replace",
      after: { replaced_by: made.id },
      reason: "was leaked",
    });
    expect((await line.json(["audit", "--key", made.id]))[0]).toMatchObject({
      action: "key.issue",
      after: { mode: "test", monthly_limit: 9, replaces: old.id },
    });
    expect(refusalOf(await line.here(["keys", "replace", old.id]))).toStartWith(
      `Cannot replace key: it was replaced already, by ${made.id}`,
    );
  });

  test("gives an expired license a key with which it can be renewed, and says so", async () => {
    const { key } = await expired();
    await line.json(["keys", "revoke", key.id]);
    const { out, err } = await line.here(["keys", "replace", key.id]);
    expect(err).toContain("Its license has expired: renew it, so that the key works");
    const made = { id: /key_\w+/.exec(out)?.[0] ?? "", api_key: /svc_\w+/.exec(out)?.[0] ?? "" };
    expect((await validate(made.api_key)).status).toBe(401);
    await line.json(["keys", "renew", made.id, "--expires-at", "2099-01-01"]);
    await expectSoon(made.api_key, { status: 200 });
  });
});

describe("claviger keys rotate", () => {
  test("issues a second key of the same license, and both work during the overlap", async () => {
    const old = await issue();
    const { id, api_key: apiKey, replaces } = await line.json(["keys", "rotate", old.id, "--overlap", "2d"]);
    expect(replaces).toBe(old.id);
    const event = { api_key: apiKey, event_type: "inference" };
    expect(await service.post("/v1/analytics/log", event)).toMatchObject({ status: 202 });
    const shown = await line.json(["keys", "show", old.id]);
    expect(shown).toMatchObject({ state: "active", used: 1, replaced_by: id });
    await expectSoon(old.api_key, { status: 200, quota: { used: 1 }, expires_at: shown.expires_at });
    const daysLeft = (new Date(shown.expires_at).getTime() - Date.now()) / 86_400_000;
    expect(daysLeft).toBeWithin(1.99, 2.01);
  });

  test("writes a row to the audit log for each of the two keys, which name each other", async () => {
    const old = await issue("--monthly-limit", "9");
    const next: Issued = await line.json(["keys", "rotate", old.id, "--reason", "ninety days"]);
    const [rotated] = await line.json(["audit", "--key", old.id]);
    expect(rotated).toMatchObject({
      action: "key.rotate",
      after: { replaced_by: next.id },
      reason: "ninety days",
    });
    const [born, ...more] = await line.json(["audit", "--key", next.id]);
    expect(born).toMatchObject({
      at: rotated.at,
      action: "key.issue",
      user_id: rotated.user_id,
      before: null,
      after: { tier: "research", mode: "live", monthly_limit: 9, rotated_from: old.id },
      reason: "ninety days",
    });
    expect(more).toEqual([]);
  });

  test("ends the old key at once without an overlap", async () => {
    const old = await issue();
    expect((await validate(old.api_key)).status).toBe(200);
    const { api_key: apiKey } = await line.json(["keys", "rotate", old.id, "--overlap", "0d"]);
    await expectSoon(old.api_key, { status: 401, code: "KEY_EXPIRED" });
    expect((await validate(apiKey)).status).toBe(200);
  });

  test("never lets the old key outlive its license", async () => {
    const old = await issue("--expires-at", "2099-06-01");
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
    await line.json(["keys", "renew", old.id, "--expires-at", tomorrow, "--shorten"]);
    await line.json(["keys", "rotate", old.id, "--overlap", "30d"]);
    const { expires_at: expiresAt } = await line.json(["keys", "show", old.id]);
    expect(new Date(expiresAt).getTime()).toBeLessThanOrEqual(Date.now() + 86_400_000);
  });

  test("refuses a key that has expired", async () => {
    const { key, expiresAt } = await expired();
    expect(refusalOf(await line.here(["keys", "rotate", key.id]))).toBe(
      `Cannot rotate key: it expired at ${toTimestamp(expiresAt)}; ` +
        `\`claviger keys renew ${key.id} --expires-at TIME\` comes first`,
    );
  });
});

describe("claviger keys list and accounts list", () => {
  const idsOf = (rows: { id: string }[]) => rows.map(({ id }) => id);

  test("continue after an id, oldest first, and say that there are more rows", async () => {
    const email = "paged@example.org";
    const ids: string[] = [];
    for (let count = 0; count < 3; count++) {
      ids.push((await line.json(["keys", "issue", "--email", email, "--tier", "free"])).id);
    }
    const [first = "", second = "", third = ""] = ids;
    const list = ["keys", "list", "--account", email, "--limit", "2"];
    expect(idsOf(await line.json(list))).toEqual([first, second]);
    expect((await line.here(list)).err).toBe(
      `There are more rows: raise --limit above 2, or show the next rows with --after ${second}\n`,
    );
    const rest = await line.here([...list, "--after", `${second}`, "--json"]);
    expect([idsOf(JSON.parse(rest.out)), rest.err]).toEqual([[third], ""]);

    // The pages need three accounts: the one of the keys, and two more.
    for (let count = 0; count < 2; count++) await issue();
    const accounts: { id: string }[] = await line.json(["accounts", "list", "--limit", "1000"]);
    const [one = "", two = "", three = ""] = idsOf(accounts).slice(-3);
    const page = ["accounts", "list", "--limit", "1", "--after", `${one}`];
    expect(await line.here([...page, "--json"])).toMatchObject({
      out: expect.stringContaining(`${two}`),
      err: `There are more rows: raise --limit above 1, or show the next rows with --after ${two}\n`,
    });
    expect(idsOf(await line.json(["accounts", "list", "--after", `${two}`]))).toEqual([`${three}`]);
  });
});

describe("claviger keys usage and usage export", () => {
  test("show the license's use by day and by month, with test keys marked", async () => {
    const key = await issue("--mode", "test", "--organization", 'Say "hi", Inc.');
    await use(key.api_key, 3);
    const today = new Date().toISOString().slice(0, 10);
    const { used, days } = await line.json(["keys", "usage", key.id]);
    expect(used).toBe(3);
    expect(days.find(({ day }: { day: string }) => day === today)).toEqual({ day: today, used: 3 });

    const { out } = await line.here(["usage", "export", "--month", today.slice(0, 7), "--csv"]);
    const [heading, ...rows] = out.split("\r\n");
    expect(heading).toBe(
      "month,license_id,user_id,email,organization,tier,mode,monthly_limit,used,external_id,used_percent,over",
    );
    expect(rows.find((row) => row.includes(key.email))).toEndWith(
      `,${key.email},"Say ""hi"", Inc.",research,test,50000,3,,0,0`,
    );
  });

  test("write that a license is unlimited, and begin a file for Excel with a byte order mark", async () => {
    const key = await issue("--organization", "Zoë");
    await line.json(["keys", "tier", key.id, "enterprise"]);
    await use(key.api_key, 1);
    const month = ["--month", new Date().toISOString().slice(0, 7)];
    const { out: csv } = await line.here(["usage", "export", ...month, "--csv"]);
    expect(csv.split("\r\n").find((row) => row.includes(key.email))).toEndWith(
      ",Zoë,enterprise,live,unlimited,1,,,0",
    );
    expect(await line.here(["usage", "export", ...month, "--bom"])).toMatchObject({ out: `\ufeff${csv}` });
    expect((await line.here(["usage", "export", ...month])).out).toMatch(
      /enterprise +live +unlimited +1 +- +0\n/,
    );
    const rows: { email: string }[] = await line.json(["usage", "export", ...month]);
    expect(rows.find(({ email }) => email === key.email)).toMatchObject({ monthly_limit: null });
  });
});

describe("claviger keys usage of an imported key", () => {
  test("shows the imported use separately, so that the days and the import add up to the month", async () => {
    const apiKey = `svc_live_${"5e".repeat(24)}`;
    const row = { api_key: apiKey, email: "moved@example.org", tier: "free", used: 40 };
    await line.json(["keys", "import", line.write("moved.jsonl", JSON.stringify(row))]);
    await use(apiKey, 2);
    const [key] = await line.json(["keys", "list", "--account", row.email]);
    const { used, imported, days } = await line.json(["keys", "usage", key.id]);
    expect({ used, imported }).toEqual({ used: 42, imported: 40 });
    expect(days.reduce((sum: number, day: { used: number }) => sum + day.used, 0)).toBe(2);
    const today = new Date().toISOString().slice(0, 10);
    expect((await line.here(["keys", "usage", key.id])).out).toBe(
      `DAY${" ".repeat(9)}USED\nimported${" ".repeat(6)}40\n${today}${" ".repeat(5)}2\ntotal${" ".repeat(9)}42\n`,
    );
  });

  test("omits the import if there was none", async () => {
    const key = await issue();
    expect(await line.json(["keys", "usage", key.id])).toMatchObject({ used: 0, imported: 0 });
    expect((await line.here(["keys", "usage", key.id])).out).not.toContain("imported");
  });
});

describe("claviger accounts erase", () => {
  test("removes name and e-mail everywhere and keeps the counts", async () => {
    const key = await issue("--name", "Ada Lovelace", "--organization", "Engines");
    await use(key.api_key, 1);
    await line.json(["accounts", "update", key.email, "--name", "Augusta Ada King"]);
    const [account] = await line.json(["accounts", "list", "--search", key.email]);
    expect(refusalOf(await line.here(["accounts", "erase", key.email]))).toBe(
      "Cannot erase account: a key of it is not revoked; revoke its keys first; " +
        `\`claviger keys list --account ${account.id}\` shows them`,
    );
    await line.json(["keys", "revoke", key.id]);
    await line.json(["accounts", "erase", key.email]);

    const everything = JSON.stringify([
      await line.json(["accounts", "list"]),
      await line.json(["keys", "list"]),
      await line.json(["audit", "--limit", "1000"]),
    ]);
    for (const personal of [key.email, "Lovelace", "Augusta", "Engines"]) {
      expect(everything).not.toContain(personal);
    }
    expect(await line.json(["keys", "show", key.id])).toMatchObject({ used: 1, name: "erased" });
  });
});

describe("claviger audit", () => {
  test("filters by account, named by its id or its e-mail", async () => {
    const [key, another] = [await issue(), await issue()];
    const [{ user_id: userId }] = await line.json(["audit", "--key", key.id]);
    for (const account of [userId, key.email, key.email.toUpperCase()]) {
      const rows: { key_id: string }[] = await line.json(["audit", "--account", account]);
      expect(rows.map((row) => row.key_id)).toEqual([key.id]);
    }
    expect(await line.json(["audit", "--account", another.email])).toHaveLength(1);
    expect(refusalOf(await line.here(["audit", "--account", "nobody@example.org"]))).toBe(
      "Cannot show audit log: no account has the id or e-mail nobody@example.org",
    );
  });

  test("says that there are more rows than it shows", async () => {
    const key = await issue();
    await line.json(["keys", "limit", key.id, "3"]);
    const audit = (limit: string) => line.here(["audit", "--key", key.id, "--limit", limit]);
    const rows = await line.json(["audit", "--key", key.id]);
    const [newest, older] = rows;
    const cut = await audit("1");
    expect(cut.out.trim().split("\n")).toHaveLength(2);
    expect(cut.err).toBe(
      `There are older rows: raise --limit above 1, or show the next rows with --after ${newest.id}\n`,
    );
    expect(rows.length).toBe(2);
    expect(await line.json(["audit", "--key", key.id, "--after", `${newest.id}`])).toEqual([older]);
    expect(refusalOf(await line.here(["audit", "--after", "999999999"]))).toBe(
      "Cannot show audit log: no change has the id 999999999",
    );
    expect((await audit("2")).err).toBe("");
    expect(await line.json(["audit", "--key", key.id, "--limit", "1"])).toHaveLength(1);
  });

  test("filters by time", async () => {
    const key = await issue();
    const now = new Date(Date.now() + 1_000).toISOString();
    expect(await line.json(["audit", "--key", key.id, "--until", now])).toHaveLength(1);
    expect(await line.json(["audit", "--key", key.id, "--since", now])).toHaveLength(0);
  });
});

test("claviger keys list computes the stored figures for its conditions, without a service", async () => {
  using own = createCommandLine({ prepared: true });
  const key = (used: number) => ({
    sha256: hash("sha256", `used ${used}`),
    ...{ mode: "live", email: `used-${used}@example.org`, tier: "free", used },
  });
  const input = [9_500, 7_999, 10_000].map((used) => JSON.stringify(key(used))).join("\n");
  await own.json(["keys", "import", "-"], { input });
  const usedOf = async (...conditions: string[]) => {
    const rows: { used: number }[] = await own.json(["keys", "list", ...conditions]);
    return rows.map(({ used }) => used);
  };
  expect(await usedOf("--near-quota", "80")).toEqual([9_500, 10_000]);
  expect(await usedOf("--near-quota", "96")).toEqual([10_000]);
  expect(await usedOf("--refused-now")).toEqual([10_000]);
  expect(await usedOf("--sort", "most_used")).toEqual([10_000, 9_500, 7_999]);
  expect(await usedOf("--unused-for", "30")).toEqual([]);
  const { err } = await own.here(["keys", "list", "--near-quota", "80"]);
  expect(err).toMatch(/^By the stored figures of \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$/);
});

test("claviger keys list and accounts list ask for a narrower search when more accounts match than they search", async () => {
  // An installation of its own, because the other tests list all accounts.
  using own = createCommandLine({ prepared: true });
  const toLine = (_: unknown, number: number) =>
    JSON.stringify({
      sha256: (number + 1).toString(16).padStart(64, "0"),
      mode: "live",
      email: `many-${number}@wide.example`,
      tier: "free",
    });
  const lines = Array.from({ length: 1_001 }, toLine);
  await own.json(["migrate"]);
  await own.json(["keys", "import", own.write("wide.jsonl", lines.join("\n"))]);
  const note =
    "More than 1,000 accounts or external ids match, and only 1,000 are searched: narrow the search\n";
  for (const list of ["keys", "accounts"]) {
    const wide = await own.here([list, "list", "--search", "wide", "--limit", "2000", "--json"]);
    expect([wide.err, JSON.parse(wide.out).length]).toEqual([note, 1_000]);
    const narrow = await own.here([list, "list", "--search", "wide many 7", "--limit", "2000"]);
    expect(narrow.err).toBe("");
  }
});
