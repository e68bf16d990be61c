/**
 * Every condition of every list and download counts: in the console, in the API and in commands. A value that cannot be
 * read, an unknown name and a name that is sent twice are refused by name, and nothing is shown instead.
 *
 * Conditions that are declared once (`src/base/condition.ts`) are read alike at every door, so their values are tried at
 * one door, the API. What a door declares by itself is tried at that door.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as v from "valibot";
import { conditionFields } from "../../src/admin/frame/api/fields.ts";
import { CONSOLE_ROUTES, ROUTES } from "../../src/admin/things.ts";
import { ACTIONS, AUDIT_CONDITIONS } from "../../src/audit/mod.ts";
import type { ListConditions } from "../../src/base/condition.ts";
import { toId } from "../../src/base/ids.ts";
import { leavesOf } from "../../src/cli/guide/write_tables.ts";
import { conditionOptions } from "../../src/cli/list_options.ts";
import { type Parameter, toOption } from "../../src/cli/parameter.ts";
import { createProgram } from "../../src/cli/program.ts";
import { MACHINE_CONDITIONS } from "../../src/licensing/machines/mod.ts";
import { ACCOUNT_CONDITION, ACCOUNT_CONDITIONS } from "../../src/licensing/mod.ts";
import { NOTICE_CONDITIONS } from "../../src/notices/mod.ts";
import { ACTIVITY_CONDITIONS } from "../../src/usage/activity/mod.ts";
import { KEY_CONDITIONS } from "../../src/usage/figures/mod.ts";
import { USAGE_DAYS_CONDITIONS } from "../../src/usage/mod.ts";
import { createCommandLine, createTestInvocation } from "../cli/command_line.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { AFTER, CONSOLE_CONDITIONS, WRONG_FOR_KEYS, type Wrong } from "./console_conditions.ts";

const ACTOR_FORM =
  "must be a kind and a name, such as token:shop; the kinds are http, command, token, operator, service";

/** The lists whose conditions are declared once, by their names at the doors. */
const DECLARED: readonly {
  readonly conditions: ListConditions;
  readonly path: string;
  readonly command: string;
  /** The conditions that its page does not have, or undefined if it has no page. */
  readonly notOnPage?: readonly string[];
}[] = [
  { conditions: KEY_CONDITIONS, path: "/keys", command: "keys list", notOnPage: [] },
  { conditions: ACCOUNT_CONDITIONS, path: "/accounts", command: "accounts list", notOnPage: [] },
  { conditions: MACHINE_CONDITIONS, path: "/machines", command: "machines list", notOnPage: [] },
  { conditions: NOTICE_CONDITIONS, path: "/notices", command: "notices list", notOnPage: [] },
  {
    conditions: { account: ACCOUNT_CONDITION, ...AUDIT_CONDITIONS },
    path: "/audit",
    command: "audit",
    notOnPage: [],
  },
  { conditions: ACTIVITY_CONDITIONS, path: "/activity", command: "activity", notOnPage: ["from"] },
  { conditions: USAGE_DAYS_CONDITIONS, path: "/usage/daily", command: "usage daily" },
];

/** The limit and the position of a page of the API. lists_test.ts has other values. */
const PAGES: Wrong = { ...AFTER, limit: ["all", ""] };
const MONTHS = ["2026-13", "2026", "2026-2", "26-10", "\u00b22026-10", "now", ""];

const admin = useAdmin();
const client = createConsoleClient(admin);
let [token, cookie, keyId, licenseId] = ["", "", "", ""];
beforeAll(async () => {
  const key = await admin.issue({ email: "grace@example.org" });
  ({ id: keyId } = key);
  licenseId = toId("lic", key.licenseUuid);
  token = await admin.token();
  ({ cookie } = await client.logIn());
});

const toOptionName = (name: string) => name.replaceAll("_", "-");

describe("the console", () => {
  /** Pages without a condition, and forms. */
  const OTHERS = [
    "/overview",
    "/keys/:id",
    "/keys/issue",
    "/keys/many",
    "/accounts/:id",
    "/accounts/:id/erasure",
    "/machines/many",
    "/machines/:id",
    "/notices/:id",
    "/notices/muted",
    "/tiers",
    "/usage/reports",
    "/models/_add",
    "/models/:name",
    "/access",
  ];
  OTHERS.push("/access/operators/:name", "/access/tokens/:name");
  /** Conditions without a field, which only links have. */
  const WITHOUT_FIELD = ["after", "before", "to"];

  test("has no other list", () => {
    const pages = CONSOLE_ROUTES.filter(({ method }) => method === "GET").map(({ path }) => path);
    expect(pages.toSorted()).toEqual([...Object.keys(CONSOLE_CONDITIONS), ...OTHERS].toSorted());
  });

  for (const [path, wrong] of Object.entries(CONSOLE_CONDITIONS)) {
    const withoutForm = ["/usage.csv", "/models", "/search", "/licenses/:id", "/health", "/health/latency"];
    const hasForm = !withoutForm.includes(path);

    /** Returns the page of an address that must be refused, with nothing of the list. */
    async function refuse(query: [name: string, text: string][]): Promise<string> {
      const answer = await client.send(`${path.replace(":id", licenseId)}?${new URLSearchParams(query)}`, {
        cookie,
      });
      expect({ query, status: answer.status }).toEqual({ query, status: 400 });
      expect(answer.headers.get("content-type")).toStartWith("text/html");
      expect(answer.text).toContain("Nothing is shown: ");
      // The second one is that of "No key meets these conditions".
      for (const part of ["<table", 'class="empty"', "grace@example.org", ".csv?"])
        expect(answer.text).not.toContain(part);
      expect(answer.text.includes('class="filters')).toBe(hasForm);
      return answer.text;
    }

    test(`GET ${path} shows nothing if it cannot read a condition, and names each`, async () => {
      for (let at = 0; Object.values(wrong).some((texts) => [texts].flat().length > at); at++) {
        let left = Object.entries(wrong).flatMap(([name, texts]): [string, string][] => {
          const text = [texts].flat()[at];
          return text === undefined ? [] : [[name, text]];
        });
        // A page names the conditions that are wrong by themselves before those that it looks up.
        while (left.length > 0) {
          const page = await refuse(left);
          const named = left.filter(([name]) =>
            new RegExp(`Nothing is shown: ([^<]*; )?${name.replaceAll("_", " ")} must`).test(page),
          );
          expect({ left, named: named.length }).not.toEqual({ left, named: 0 });
          for (const [name, text] of named) {
            if (!hasForm || WITHOUT_FIELD.includes(name)) continue;
            const [control = ""] =
              new RegExp(`<(input|select) id="${name}".*?(/>|</select>)`, "s").exec(page) ?? [];
            expect(control).toContain('aria-invalid="true"');
            expect(control).toContain(`value="${text}"`);
          }
          left = left.filter((each) => !named.includes(each));
        }
      }
    });

    test(`GET ${path} shows nothing with an unknown condition, or with one that is sent twice`, async () => {
      expect(await refuse([["colour", "red"]])).toContain("Nothing is shown: colour is not known");
      const [name = ""] = Object.keys(wrong);
      const twice = await refuse([
        [name, "1"],
        [name, "2"],
      ]);
      expect(twice).toContain(`Nothing is shown: ${name.replaceAll("_", " ")} may be sent only once`);
    });
  }

  test("GET /keys and GET /audit accept empty conditions, which a form sends, and blanks around a text", async () => {
    for (const path of [
      "/keys?search=&state=&tier=&account=",
      "/keys?tier=+research+",
      "/audit?key=&since=",
    ]) {
      const answer = await client.send(path, { cookie });
      expect([answer.status, answer.text.includes("grace@example.org")]).toEqual([200, true]);
    }
  });

  test("GET /keys names a condition in words", async () => {
    const { text } = await client.send("/keys?expiring_within=30days", { cookie });
    expect(text).toContain("Nothing is shown: expiring within must be a whole number from 0 to 36500");
  });

  test("GET /audit names the kinds of actors", async () => {
    const { text } = await client.send("/audit?actor=olga", { cookie });
    expect(text).toContain(`Nothing is shown: actor ${ACTOR_FORM}`);
  });

  test("no field of conditions cuts a text that is typed or pasted", async () => {
    for (const path of ["/keys", "/accounts", "/audit"]) {
      expect((await client.send(path, { cookie })).text).not.toContain("maxlength");
    }
  });
});

describe("the API", () => {
  const LISTS: Readonly<Record<string, Wrong>> = {
    "/keys": {
      ...{ ...WRONG_FOR_KEYS, ...PAGES },
      search: ["two\nlines", "", "x".repeat(256), `svc_live_${"0".repeat(48)}`, "SVC_TEST_01234567"],
      account: ["Grace", "nobody"],
      expiring_within: ["30 days", "-1", "36501"],
      external_id: ["x".repeat(256), ""],
      near_quota: ["79", "0", "101", "80.5", "-80", ""],
      unused_for: ["31", "3", "29", "0", "1e2", ""],
      runs_out_within: ["32", "-1", "7d", ""],
      refused_now: ["false", "1", ""],
      all_places_taken: ["false", "1", ""],
    },
    "/keys/:id/usage": { month: MONTHS },
    "/accounts": { search: "!!", sort: ["created", ""], ...PAGES },
    "/accounts/:id/usage": { month: MONTHS },
    "/machines": {
      ...{ account: "Grace", license: "lic_1", key: "key_1", state: "free", sort: "latest_used" },
      name: ["two\nlines", "", "!!", "x".repeat(256), `svc_live_${"0".repeat(48)}`],
      unseen: ["30", "30 days", "-1d", "3651d", "1m", ""],
      ...PAGES,
    },
    "/notices": {
      ...{ kind: "license", state: ["active", ""], account: "Grace", license: "lic_1", sort: "latest_used" },
      ...PAGES,
    },
    "/notices/muted": PAGES,
    "/usage": { month: ["November", ...MONTHS], ...PAGES },
    "/usage/daily": { from: "monday", to: "2026-11-31", by: "code" },
    "/activity": { from: "monday", to: "now", by: "tier", step: "week" },
    "/health/latency": { from: "monday", to: "now" },
    "/models": PAGES,
    "/audit": {
      account: "Grace",
      key: ["svc_test_…ce05", "key_1", `usr_${"0".repeat(32)}`],
      // A text that begins with no kind, or has no name.
      actor: ["", "olga", "user:olga", "operator:", "Operator:olga", `operator:${"x".repeat(300)}`],
      action: ["key.revoked", "x".repeat(101)],
      since: "yesterday",
      until: "2026-11-31",
      wait: ["-1", "21", "soon"],
      ...PAGES,
    },
  };

  test("has no other condition", () => {
    const known = ROUTES.filter(
      ({ method, operation }) => method === "GET" && operation.query !== undefined,
    ).map(({ path, operation }) => [path, Object.keys(operation.query?.entries ?? {}).toSorted()]);
    expect(Object.fromEntries(known)).toEqual(
      Object.fromEntries(Object.entries(LISTS).map(([path, wrong]) => [path, Object.keys(wrong).toSorted()])),
    );
  });

  const NEAR = "near_quota must be a whole number from 80 to 100: the stored figures have only the licenses";
  const WORDS = "search must be one line of 1 to 255 characters, with a letter or a digit, and no API key";
  const sentences: [path: string, field: string, sentence: string][] = [
    ["/accounts?search=%26%26", "search", WORDS],
    ["/whoami?colour=red", "colour", "colour is not known"],
    ["/audit?action=key.revoked", "action", `action must be one of ${ACTIONS.join(", ")}`],
    ["/audit?actor=olga", "actor", `actor ${ACTOR_FORM}`],
    ["/activity?by=colour", "by", "by must be one of endpoint, code, reason"],
    ["/activity?step=week", "step", "step must be one of hour, day, month"],
    ["/activity?from=yesterday", "from", "from must be an ISO 8601 time"],
    ["/activity?from=2026-11-22&to=2026-11-21", "from", "from must be before to"],
    ["/activity?from=2026-01-01&to=2026-11-22", "from", "by hour the span is at most 31 days"],
    ["/health/latency?from=2026-11-22&to=2026-11-21", "from", "from must be before to"],
    ["/health/latency?from=2026-11-20&to=2026-11-22T00:00:01Z", "from", "the span is at most 48 hours"],
    ["/keys?account=ada", "account", "account must be an account's id, usr_ and"],
    ["/keys?state=deleted", "state", "must be one of active, suspended, revoked, expired"],
    ["/keys?expiring_within=36501", "expiring_within", "must be a whole number from 0 to 36500"],
    ["/keys?near_quota=79", "near_quota", NEAR],
    ["/keys?unused_for=31", "unused_for", "unused_for must be one of 30, 90, 180, 365: the stored figures"],
    ["/usage/daily?from=2026-02-30", "from", "from must be a day such as 2026-11-20"],
    ["/usage/daily?to=2026-11-20T00:00:00Z", "to", "to must be a day such as 2026-11-20"],
    ["/usage/daily?by=key", "by", "by must be one of tier, mode"],
    ["/usage/daily?from=2025-10-16&to=2026-11-20", "from", "from and to must be at most 400 days apart"],
  ];
  test.each(sentences)("GET %s is refused with the name of %s and %j", async (path, field, sentence) => {
    const { status, body } = await admin.call("GET", path, { token });
    const error = expect.stringContaining(sentence);
    expect({ status, ...body }).toEqual({
      status: 400,
      code: "INVALID_REQUEST",
      error,
      details: [{ field, error }],
    });
  });

  test("reads or refuses the first and the last instant that a condition can have, at every door", async () => {
    const times = ["from", "to", "at", "since", "until", "month"];
    for (const [door, lists] of Object.entries({ console: CONSOLE_CONDITIONS, api: LISTS })) {
      for (const [path, conditions] of Object.entries(lists)) {
        for (const name of Object.keys(conditions).filter((name) => times.includes(name))) {
          for (const year of ["1000-01", "9999-12"]) {
            const texts = [year, `${year}-01`, `${year}-31`, `${year}-01T00:00:00Z`, `${year}-31T23:59:59Z`];
            for (const text of texts) {
              const of = path.startsWith("/keys") ? keyId : path.startsWith("/lic") ? licenseId : "usr_1";
              const at = `${path.replace(":id", of)}?${new URLSearchParams({ [name]: text })}`;
              const { status } =
                door === "api" ? await admin.call("GET", at, { token }) : await client.send(at, { cookie });
              expect({ door, at, isAnswered: status < 500 }).toEqual({ door, at, isAnswered: true });
            }
          }
        }
      }
    }
  });

  test("GET /audit accepts every kind of actor", async () => {
    for (const actor of [
      "http:2001:db8::7",
      "command:root",
      "token:shop",
      "operator:(unknown)",
      "service:upkeep",
    ]) {
      const { status } = await admin.call("GET", `/audit?${new URLSearchParams({ actor })}`, { token });
      expect({ actor, status }).toEqual({ actor, status: 200 });
    }
  });

  for (const [path, wrong] of Object.entries(LISTS)) {
    test(`GET ${path} names each condition that it cannot read`, async () => {
      const place = path.replace(":id", path.startsWith("/keys") ? keyId : "usr_1");
      for (const [name, texts] of Object.entries(wrong)) {
        for (const text of [texts].flat()) {
          const query = new URLSearchParams({ [name]: text });
          const { status, body } = await admin.call("GET", `${place}?${query}`, { token });
          const field = body.details?.[0].field;
          expect({ name, text, status, field }).toEqual({ name, text, status: 400, field: name });
        }
      }
    });
  }

  test("reads a declared condition as a command does, with the same sentence", () => {
    for (const { conditions, path } of DECLARED) {
      const fields = conditionFields(conditions);
      const options: Readonly<Record<string, Parameter<unknown>>> = conditionOptions(conditions);
      for (const [name, { reader }] of Object.entries(conditions)) {
        const parameter = options[name.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase())];
        // An option without a value is the only word.
        if (parameter?.reader === undefined) {
          expect({ name, reader }).toEqual({ name, reader: ["true"] });
          continue;
        }
        const option = toOption(name, parameter);
        const right = "parse" in reader ? [] : reader;
        for (const text of [...[LISTS[path]?.[name] ?? []].flat(), ...right, ...RIGHT]) {
          const field = v.safeParse(fields[name] as v.GenericSchema<string>, text);
          const inApi = field.success ? field.output : field.issues[0].message;
          expect({ name, text, read: readOption(option, text) }).toEqual({ name, text, read: inApi });
        }
      }
    }
  });
});

/** Texts that some conditions can read. */
const RIGHT = ["7", "30", "90", "ada@example.org", "token:shop", "2026-11-20", "2026-11-20T10:00:00Z"];

/** Returns the value that an option reads, or its sentence as the API has it. */
function readOption(option: ReturnType<typeof toOption>, text: string): unknown {
  try {
    return option.parseArg?.(text, undefined);
  } catch (error) {
    return (error as Error).message.replace("It must", "must");
  }
}

describe("a command", () => {
  /** The options with values that are not declared for all doors, each with a value that it cannot read. */
  const OWN: Readonly<Record<string, Wrong>> = {
    "keys list": { search: "", limit: "all", after: "next" },
    "keys usage": { month: "2026-13" },
    "usage export": { month: "November" },
    "usage daily": {},
    activity: {},
    "accounts list": { search: "", limit: "0", after: "next" },
    "accounts usage": { month: "2026-13" },
    "licenses outstanding": { key: "svc_test_…ce05", limit: "0" },
    audit: { limit: "0", after: "next" },
    "machines list": { limit: "all", after: "next" },
    "notices list": { limit: "all", after: "next" },
    "notices muted": { limit: "all" },
    "models list": {},
    "operators list": {},
    "tiers list": {},
    "tokens list": {},
  };
  const leaves = leavesOf(createProgram(createTestInvocation("/", {}).invocation));
  /** The options of commands that are no conditions. */
  const OTHERS = ["data-dir", "env-file", "json", "csv", "bom", "wide", "follow"];
  const optionsOf = (path: string) =>
    leaves
      .find((leaf) => leaf.path === `claviger ${path}`)
      ?.command.options.map(({ long }) => long?.slice(2) ?? "")
      .filter((name) => !OTHERS.includes(name));
  const line = createCommandLine();
  afterAll(() => line.remove());

  test("has no other option, and no other command is a list", () => {
    for (const [path, own] of Object.entries(OWN)) {
      const { conditions = {} } = DECLARED.find(({ command }) => command === path) ?? {};
      const known = [...Object.keys(conditions).map(toOptionName), ...Object.keys(own)];
      expect({ path, options: optionsOf(path)?.toSorted() }).toEqual({ path, options: known.toSorted() });
    }
    const named = leaves
      .map(({ path }) => path.replace("claviger ", ""))
      .filter((path) => path.endsWith(" list"));
    expect(named.filter((path) => OWN[path] === undefined)).toEqual([]);
  });

  for (const [path, own] of Object.entries(OWN)) {
    const argument =
      path === "keys usage" ? [`key_${"0".repeat(32)}`] : path === "accounts usage" ? ["a@b.example"] : [];
    for (const [name, text] of Object.entries(own)) {
      test(`${path} --${name}=${text} is refused, and names the option`, async () => {
        const { status, out, err } = await line.here([...path.split(" "), ...argument, `--${name}=${text}`]);
        expect({ status, out }).toEqual({ status: 2, out: "" });
        expect(err).toContain(`--${name}`);
      });
    }
  }

  test("is refused with an option that is given twice", async () => {
    for (const [path, option] of [
      ["keys list", "--tier=free"],
      ["audit", "--limit=5"],
    ] as const) {
      const { status, out, err } = await line.here([...path.split(" "), option, option]);
      expect({ status, out }).toEqual({ status: 2, out: "" });
      const [name] = option.split("=");
      expect(err).toBe(`claviger: ${name} is given twice; see \`claviger ${path} --help\`\n`);
    }
  });
});

test("every door takes all declared conditions", () => {
  for (const { conditions, path, notOnPage } of DECLARED) {
    const names = Object.keys(conditions);
    const route = ROUTES.find((each) => each.method === "GET" && each.path === path);
    expect(Object.keys(route?.operation.query?.entries ?? {})).toEqual(expect.arrayContaining(names));
    if (notOnPage === undefined) continue;
    const onPage = names.filter((name) => !notOnPage.includes(name));
    expect(Object.keys(CONSOLE_CONDITIONS[path] ?? {})).toEqual(expect.arrayContaining(onPage));
  }
});
