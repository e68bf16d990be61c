/**
 * Every condition of every list and download counts: in the console, in the API and in commands. A value that cannot be
 * read, an unknown name and a name that is sent twice are refused by name, and nothing is shown instead.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CONSOLE_ROUTES, ROUTES } from "../../src/admin/things.ts";
import { ACTIONS } from "../../src/audit/mod.ts";
import { leavesOf } from "../../src/cli/guide/write_tables.ts";
import { createProgram } from "../../src/cli/program.ts";
import { createCommandLine, createTestInvocation } from "../cli/command_line.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { AFTER, CONSOLE_CONDITIONS, KEY_CONDITIONS, type Wrong } from "./console_conditions.ts";

const ACTOR_FORM =
  "must be a kind and a name, such as token:shop; the kinds are http, command, token, operator";

/** The limit of pages of the API; an empty condition is none in the console, where a form sends it. */
const PAGES: Wrong = { ...AFTER, limit: ["all", "0", "101", "-1", "1e1", "2.5", "", "9".repeat(30)] };
const MONTHS = ["2026-13", "2026", "2026-2", "26-10", "\u00b22026-10", "now", ""];

const admin = useAdmin();
const client = createConsoleClient(admin);
let [token, cookie, keyId] = ["", "", ""];
beforeAll(async () => {
  ({ id: keyId } = await admin.issue({ email: "grace@example.org" }));
  token = await admin.token();
  ({ cookie } = await client.logIn());
});

/** Each wrong value alone, an unknown name, and each name twice. */
function casesOf(wrong: Wrong, { isFree = [] as readonly string[] } = {}) {
  const twice = Object.keys(wrong).filter((name) => name !== "colour");
  return [
    ...Object.entries({ ...wrong, colour: "red" }).flatMap(([name, texts]) =>
      [texts].flat().map((text) => ({ name, text, query: [[name, text]] })),
    ),
    ...[...twice, ...isFree].map((name) => ({
      name,
      text: "1",
      query: [
        [name, "1"],
        [name, "2"],
      ],
    })),
  ].map(({ query, ...rest }) => ({
    ...rest,
    query: String(new URLSearchParams(query as [string, string][])),
  }));
}

describe("the console", () => {
  /** Pages without a condition, and forms. */
  const OTHERS = [
    "/overview",
    "/keys/issue",
    "/keys/many",
    "/accounts/:id",
    "/accounts/:id/erasure",
    "/machines/:id",
    "/models/_add",
    "/models/:name",
    "/access",
  ];
  OTHERS.push("/access/operators/:name", "/access/tokens/:name");
  /** Conditions without a field, which only links have. */
  const WITHOUT_FIELD = ["after", "before", "colour", "to"];

  test("has no other list", () => {
    const pages = CONSOLE_ROUTES.filter(({ method }) => method === "GET").map(({ path }) => path);
    expect(pages.toSorted()).toEqual([...Object.keys(CONSOLE_CONDITIONS), ...OTHERS].toSorted());
  });

  for (const [path, wrong] of Object.entries(CONSOLE_CONDITIONS)) {
    for (const { name, text, query } of casesOf(wrong)) {
      test(`GET ${path}?${query.slice(0, 60)} shows nothing, and names the condition`, async () => {
        const answer = await client.send(`${path.replace(":id", keyId)}?${query}`, { cookie });
        expect(answer.status).toBe(400);
        expect(answer.headers.get("content-type")).toStartWith("text/html");
        expect(answer.text).toMatch(
          new RegExp(`Nothing is shown: (.*; )?${name.replaceAll("_", " ")} (must|is not known|may be sent)`),
        );
        expect(answer.text).not.toContain("<table");
        // Such as "No key meets these conditions".
        expect(answer.text).not.toContain('class="empty"');
        expect(answer.text).not.toContain("grace@example.org");
        expect(answer.text).not.toContain(".csv?");
        const hasForm = answer.text.includes('class="filters');
        expect(hasForm).toBe(!["/usage.csv", "/models", "/search", "/keys/:id", "/health"].includes(path));
        if (!hasForm || WITHOUT_FIELD.includes(name)) return;
        const [control = ""] =
          new RegExp(`<(input|select) id="${name}".*?(/>|</select>)`, "s").exec(answer.text) ?? [];
        expect(control).toContain('aria-invalid="true"');
        if (text !== "1") expect(control).toContain(`value="${text}"`);
      });
    }
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

  test("GET /audit names the actions that it knows", async () => {
    const { text } = await client.send("/audit?action=key.revoked", { cookie });
    expect(text).toContain(`Nothing is shown: action must be one of ${ACTIONS.join(", ")}`);
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
      ...{ ...KEY_CONDITIONS, ...PAGES },
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
    "/accounts": { search: "!!", ...PAGES },
    "/accounts/:id/usage": { month: MONTHS },
    "/machines": { account: "Grace", license: "lic_1", key: "key_1", state: "free", ...PAGES },
    "/usage": { month: ["November", ...MONTHS], ...PAGES },
    "/usage/daily": { from: "monday", to: "2026-11-31", by: "code" },
    "/activity": { from: "monday", to: "now", by: "tier", step: "week" },
    "/models": PAGES,
    "/audit": {
      account: "Grace",
      key: ["svc_test_…ce05", "key_1", `usr_${"0".repeat(32)}`],
      // A text that begins with no kind, or has no name.
      actor: ["", "olga", "user:olga", "operator:", "Operator:olga", `operator:${"x".repeat(300)}`],
      action: ["key.revoked", "x".repeat(101)],
      since: "yesterday",
      until: "2026-11-31",
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

  test("GET /audit accepts every kind of actor", async () => {
    for (const actor of ["http:2001:db8::7", "command:root", "token:shop", "operator:(unknown)"]) {
      const { status } = await admin.call("GET", `/audit?${new URLSearchParams({ actor })}`, { token });
      expect({ actor, status }).toEqual({ actor, status: 200 });
    }
  });

  for (const { method, path, operation } of ROUTES) {
    if (method !== "GET") continue;
    for (const { name, query } of casesOf(LISTS[path] ?? {}, { isFree: ["colour"] })) {
      test(`GET ${path}?${query.slice(0, 60)} is refused, and names the condition`, async () => {
        const headers = operation.success.content ? { accept: "text/csv" } : undefined;
        const place = path
          .replace(":id", path.startsWith("/keys") ? keyId : "usr_1")
          .replace(":name", "none");
        for (const more of headers ? [{}, { headers }] : [{}]) {
          const { status, body } = await admin.call("GET", `${place}?${query}`, { token, ...more });
          expect({ status, field: body.details?.[0].field }).toEqual({ status: 400, field: name });
        }
      });
    }
  }
});

describe("a command", () => {
  const LISTS: Readonly<Record<string, Wrong>> = {
    "keys list": {
      ...{
        search: "",
        limit: "all",
        after: "next",
        account: "Grace",
        tier: "gold",
        state: "live",
        mode: "demo",
      },
      "external-id": "",
      "expiring-within": "30 days",
      "unused-for": "45",
      "near-quota": "50",
      "runs-out-within": "32",
      sort: "expiry",
    },
    "keys usage": { month: "2026-13" },
    "usage export": { month: "November" },
    "usage daily": { from: "monday", to: "2026-11-31", by: "code" },
    activity: { by: "tier", step: "week", from: "monday", to: "now" },
    "accounts list": { search: "", limit: "0", after: "next" },
    "accounts usage": { month: "2026-13" },
    "licenses outstanding": { key: "svc_test_…ce05", limit: "0" },
    audit: {
      limit: "0",
      after: "next",
      key: "svc_test_…ce05",
      account: "Grace",
      actor: "olga",
      action: "key.revoked",
      since: "yesterday",
      until: "2026-11-31",
    },
    "machines list": {
      account: "Grace",
      license: "lic_1",
      key: "key_1",
      state: "free",
      limit: "all",
      after: "next",
    },
    "models list": {},
    "operators list": {},
    "tokens list": {},
  };
  /** Values that can be read, for the test of options that are given twice. */
  const RIGHT: Wrong = {
    search: "ada",
    limit: "5",
    account: "a@b.example",
    tier: "free",
    state: "active",
    mode: "test",
    "external-id": "7",
    "expiring-within": "30",
    "unused-for": "30",
    "near-quota": "90",
    "runs-out-within": "7",
    sort: "newest",
    by: "tier",
    month: "2026-11",
    from: "2026-11-01",
    to: "2026-11-02",
    step: "day",
    actor: "token:shop",
    key: `key_${"0".repeat(32)}`,
    license: `lic_${"0".repeat(32)}`,
    action: "key.revoke",
    since: "2026-11-01",
    until: "2026-11-02",
  };
  const KINDS: Readonly<Record<string, string>> = {
    "keys list": "key",
    "accounts list": "usr",
    "machines list": "mch",
  };
  const rightFor = (path: string, name: string) => {
    if (name === "after") return path === "audit" ? "7" : `${KINDS[path]}_${"0".repeat(32)}`;
    return path === "activity" && name === "by" ? "code" : RIGHT[name];
  };
  const leaves = leavesOf(createProgram(createTestInvocation("/", {}).invocation));
  const place = ["data-dir", "env-file"];
  const valuesOf = (path: string) =>
    leaves
      .find((leaf) => leaf.path === `claviger ${path}`)
      ?.command.options.filter((option) => option.required || option.optional)
      .map(({ long }) => long?.slice(2) ?? "")
      .filter((name) => !place.includes(name));
  const line = createCommandLine();
  afterAll(() => line.remove());

  test("has no other condition, and no other command is a list", () => {
    for (const [path, wrong] of Object.entries(LISTS)) {
      expect({ path, options: valuesOf(path)?.toSorted() }).toEqual({
        path,
        options: Object.keys(wrong).toSorted(),
      });
    }
    const named = leaves
      .map(({ path }) => path.replace("claviger ", ""))
      .filter((path) => path.endsWith(" list"));
    expect(named.filter((path) => LISTS[path] === undefined)).toEqual([]);
  });

  test("audit names the actions that it knows", async () => {
    const { err } = await line.here(["audit", "--action", "key.revoked"]);
    expect(err).toContain(`It must be one of ${ACTIONS.join(", ")};`);
  });

  test("audit names the kinds of actors", async () => {
    const { err } = await line.here(["audit", "--actor", "olga"]);
    expect(err).toContain(`It ${ACTOR_FORM}`);
  });

  for (const [path, wrong] of Object.entries(LISTS)) {
    const argument =
      path === "keys usage" ? [`key_${"0".repeat(32)}`] : path === "accounts usage" ? ["a@b.example"] : [];
    const asked = [
      ...Object.entries({ ...wrong, colour: "red" }).map(([name, text]) => ({
        name,
        args: [`--${name}=${text}`],
      })),
      { name: "arguments", args: ["extra", "extra"] },
    ];
    for (const name of Object.keys(wrong)) {
      const given = `--${name}=${rightFor(path, name)}`;
      test(`${path} ${given} ${given} is refused, and names the condition`, async () => {
        const { status, out, err } = await line.here([...path.split(" "), ...argument, given, given]);
        expect({ status, out }).toEqual({ status: 2, out: "" });
        expect(err).toBe(`claviger: --${name} is given twice; see \`claviger ${path} --help\`\n`);
      });
    }
    for (const { name, args } of asked) {
      test(`${path} ${args.join(" ").slice(0, 40)} is refused, and names the condition`, async () => {
        const { status, out, err } = await line.here([...path.split(" "), ...argument, ...args]);
        expect({ status, out }).toEqual({ status: 2, out: "" });
        if (path !== "usage export" || name in wrong) expect(err).toContain(name);
      });
    }
  }
});
