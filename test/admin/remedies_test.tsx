/** @jsxImportSource hono/jsx */
/** The remedies of refusals at each door: as words in the API, as commands to type, and as links of the console. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { Command } from "commander";
import { Hono } from "hono";
import { answerRefusal } from "../../src/admin/frame/answer.ts";
import { RefusalNotice } from "../../src/admin/frame/console/remedies.tsx";
import type { AdminEnv } from "../../src/admin/frame/options.ts";
import { type Refusal, refuse } from "../../src/base/refusal.ts";
import { type Remedy, type RemedyName, WORDS } from "../../src/base/remedy.ts";
import { createProgram } from "../../src/cli/program.ts";
import { renderRefusal } from "../../src/cli/remedies.ts";
import { rotateKey } from "../../src/licensing/keys/mod.ts";
import { createLicenseChanges } from "../../src/licensing/mod.ts";
import { loginOperator } from "../../src/operators/mod.ts";
import { createTestInvocation } from "../cli/command_line.ts";
import { ACTOR, BRAND, orThrow } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { addNewModel } from "../support/new_model.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { issueRevoked, issueSuspended, newName } from "./sample_requests.ts";

const STEM = "Cannot do it: something prevents it";
const NAMES = Object.keys(WORDS) as RemedyName[];

const admin = useAdmin();
const client = createConsoleClient(admin);
/** What each remedy is about, as it is in the database. */
let things: Readonly<Partial<Record<RemedyName, string>>>;
beforeAll(async () => {
  const key = await admin.issue({ email: "o'hara@example.org" });
  const operator = newName();
  const by = { actor: ACTOR, now: admin.clock.now() };
  orThrow(await loginOperator(admin.database, { name: operator, role: "viewer" }, by));
  await admin.token();
  await addNewModel(admin.database, { name: "wave" }, { now: admin.clock.now() });
  things = {
    resume_key: (await issueSuspended(admin)).id,
    renew_license: key.id,
    replace_key: (await issueRevoked(admin)).id,
    rotate_instead: key.id,
    rotate_replacement: key.id,
    revoke_keys_of_account: key.userId,
    change_account: "o'hara@example.org",
    change_role: operator,
    log_in_again: operator,
  };
});

function refusalWith(name: RemedyName): Refusal {
  const of = things[name];
  return refuse("CONFLICT", STEM, { remedy: { name, ...(of && { of }) } as Remedy });
}

/** What an operator types for the words in capitals. */
const VALUES: Readonly<Record<string, string>> = {
  NAME: "olga",
  ROLE: "editor",
  EMAIL: "ada@example.org",
  TIER: "free",
  SCOPES: "status:read",
  TIME: "2027-01-31",
  KEY: `key_${"0".repeat(32)}`,
};

/** The commands that are typed again with the option of these remedies. */
const TYPED_AGAIN: Readonly<Partial<Record<RemedyName, string>>> = {
  give_role: "operators login",
  extend_token: "tokens renew",
  shorten: "keys renew",
  allow_new_account: "licenses move",
  require_commercial: "models add",
  retire_later: "licenses rotate-signing-key",
  retire_leaked: "licenses rotate-signing-key",
  begin_journal: "usage import",
  allow_clock: "usage import",
  name_machine: "licenses export",
  read_from_start: "audit",
};

function findCommand(program: Command, words: readonly string[]): Command {
  return words.reduce<Command>((command, word) => {
    return command.commands.find((child) => child.name() === word) ?? command;
  }, program);
}

describe.each(NAMES)("The remedy %s", (name) => {
  test("ends the sentence of the API with its words, and adds nothing else to the answer", async () => {
    const app = new Hono<AdminEnv>().get("/", (c) => answerRefusal(c, refusalWith(name)));
    const words = WORDS[name];
    expect(await (await app.request("/")).json()).toEqual({
      error: words === undefined ? STEM : `${STEM}; ${words}`,
      code: "CONFLICT",
    });
  });

  test("is a command that the program has, with its arguments, or an option of the refused command", async () => {
    const sentence = renderRefusal(refusalWith(name));
    expect(sentence).toStartWith(`${STEM}; `);
    const program = createProgram(createTestInvocation("/", {}).invocation);
    const typed = /`claviger ([^`]+)`/.exec(sentence)?.[1];
    if (typed === undefined) {
      const [option = ""] = /--[a-z-]+/.exec(sentence) ?? [];
      const command = findCommand(program, TYPED_AGAIN[name]?.split(" ") ?? []);
      expect(command.options.map(({ long }) => long)).toContain(option);
      return;
    }
    expect(typed).toContain(things[name]?.replace("'", `'\\''`) ?? "");
    const words = toWords(typed).map((word) => VALUES[word] ?? word);
    const command = findCommand(program, words);
    expect(command.commands).toEqual([]);
    let isParsed = false;
    command.action(() => {
      isParsed = true;
    });
    await program.parseAsync(words, { from: "user" });
    expect(isParsed).toBe(true);
  });

  test("is a link to a page, and to its open form, for an operator who may use it", async () => {
    const { cookie } = await client.logIn("admin");
    const html = (<RefusalNotice refusal={refusalWith(name)} may={() => true} />).toString();
    expect(html).toContain(refusalWith(name).sentence);
    const href = /href="([^"]+)"/.exec(html)?.[1]?.replaceAll("&amp;", "&");
    expect(href === undefined).toBe(WITHOUT_PAGE.includes(name));
    expect((<RefusalNotice refusal={refusalWith(name)} may={() => false} />).toString()).not.toContain(
      "href",
    );
    if (href === undefined) return;
    const [path = "", form] = href.replace("/console", "").split("#");
    const { status, text } = await client.send(path, { cookie });
    expect(status).toBe(200);
    // The page has what the operator looks for.
    expect(text.includes('class="empty"')).toBe(false);
    if (form === undefined) return;
    const action = form.replace(/-form$/, "");
    expect(text).toMatch(new RegExp(`<details [^>]*id="${action}" open=""[^>]*>.*<form id="${form}"`, "s"));
  });
});

/** What only a command or the API can do. */
const WITHOUT_PAGE: readonly RemedyName[] = [
  ...([
    "give_role",
    "name_machine",
    "extend_token",
    "shorten",
    "allow_new_account",
    "require_commercial",
    "list_signing_keys",
    "begin_journal",
    "allow_clock",
    "read_from_start",
  ] as const),
  ...(["replace_one", "rotate_signing_key", "retire_later", "retire_leaked", "change_role"] as const),
];

/** Splits a line into words as a shell does. */
function toWords(line: string): string[] {
  const { stdout } = Bun.spawnSync(["sh", "-c", `printf '%s\\n' ${line}`]);
  return stdout.toString().trimEnd().split("\n");
}

describe("A refused rotation", () => {
  test("of a suspended key names the command that resumes it, and leads to the form that does", async () => {
    const { id } = await issueSuspended(admin);
    const by = { actor: ACTOR, now: admin.clock.now(), brand: BRAND };
    const old = { uuid: uuidOf({ id }), mode: "live", overlapMs: 0 } as const;
    const refusal = await rotateKey(createLicenseChanges(admin.database), old, by);
    expect(refusal).toMatchObject({
      sentence: "Cannot rotate key: it is suspended; resume it first",
      remedy: { name: "resume_key", of: id },
    });
    expect(renderRefusal(refusal as Refusal)).toBe(
      `Cannot rotate key: it is suspended; \`claviger keys resume ${id}\` comes first`,
    );
    const { cookie } = await client.logIn("editor");
    const form = { overlap_days: "7" };
    const { status, text } = await client.send(`/keys/${id}/rotate`, { cookie, form });
    expect(status).toBe(409);
    expect(text).toContain(`resume it first.</bdi> <a href="/console/keys/${id}?open=resume#resume-form">`);
  });
});

describe("An unknown key", () => {
  test("is refused with a link to the list of keys for who may see it, and also without a session", async () => {
    const path = `/keys/key_${"0".repeat(32)}`;
    const { cookie } = await client.logIn("viewer");
    const { status, text } = await client.send(path, { cookie });
    expect(status).toBe(404);
    expect(text).toContain('<a href="/console/keys">Show all keys</a>');
    expect((await client.send("/enter", { form: { code: "wrong" } })).status).toBe(401);
  });
});
