/** The form that issues a key. `same_rules_test.ts` compares its rules with those of the other doors. */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AdminAppOptions } from "../../src/admin/frame/options.ts";
import { findKey, hashApiKey } from "../../src/licensing/keys/mod.ts";
import { startAdmin } from "../support/admin.ts";
import { testFolder } from "../support/postgres.ts";
import { useAdmin } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";
import { attributesOf, textsOf } from "./texts_of.ts";

const admin = useAdmin({ admin: { publicUrl: "https://keys.example.org" } });
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn("editor"));
});

const send = (form: Record<string, string>) => client.send("/keys/issue", { cookie, form });

test("The form asks for a tier, and proposes no one", async () => {
  const { text } = await client.send("/keys/issue", { cookie });
  expect(attributesOf(text, "#issue-tier option[selected]", "value")).toEqual([]);
  expect(attributesOf(text, "#issue-tier option", "value")[0]).toBe("");
  expect(textsOf(text, "#issue-tier option")[0]).toBe("choose");
});

test("The fields that few keys need are folded, unless one has a value of its own or is wrong", async () => {
  const foldOf = (text: string) => /<details class="rest"[^>]*>/.exec(text)?.[0];
  const { text } = await client.send("/keys/issue", { cookie });
  expect(foldOf(text)).toBe('<details class="rest">');
  const [first = "", rest = ""] = text.split('<details class="rest">');
  expect(attributesOf(first, "form[data-kept] input, form[data-kept] select", "name")).toEqual([
    ...["email", "tier", "name", "last_day", "never", "starts_on_first_use", "term_days", "latest_start"],
  ]);
  expect(rest).toContain('name="mode" value="live" checked=""');
  // The e-mail is wrong, so that the form is shown again.
  const again = async (more: Record<string, string>) =>
    foldOf((await send({ email: "", tier: "free", mode: "live", never: "yes", ...more })).text);
  expect(await again({})).toBe('<details class="rest">');
  for (const more of [{ organization: "Labs" }, { mode: "test" }, { mode: "x" }, { max_machines: "many" }])
    expect(await again(more)).toBe('<details class="rest" open="">');
});

test("A key is issued with every field, and the page says what was issued", async () => {
  const { status, text, headers } = await send({
    email: "Grace@example.org",
    tier: "research",
    name: "  Grace Hopper ",
    organization: "Compiler Labs",
    external_id: "order-4711",
    monthly_limit: "1234",
    max_machines: "30",
    seat_minutes: "15",
    last_day: "2028-02-29",
    mode: "test",
  });
  expect({ status, cache: headers.get("cache-control") }).toEqual({ status: 200, cache: "no-store" });
  const [apiKey = ""] = textsOf(text, "#new-key");
  const found = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
  expect(found).toMatchObject({
    email: "grace@example.org",
    name: "Grace Hopper",
    organization: "Compiler Labs",
    externalId: "order-4711",
    tier: "research",
    mode: "test",
    state: "active",
    monthlyLimit: 1234,
    maxMachines: 30,
    seatMinutes: 15,
    expiresAt: new Date("2028-02-29T23:59:59Z"),
  });
  expect(text).toContain("30 floating seats of 15 minutes");
});

test("A license starts on its first use, has allowances of its own, and the page says so", async () => {
  const allowances = { max_machines: "5", self_releases: "2", shows_machines: "no", max_offline_days: "14" };
  const { status, text } = await send({
    ...{ email: "trial@example.org", tier: "research", mode: "live", last_day: "2028-02-29", ...allowances },
    ...{ starts_on_first_use: "yes", term_days: "30", latest_start: "2030-01-31" },
  });
  expect(status).toBe(200);
  const [apiKey = ""] = textsOf(text, "#new-key");
  const found = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
  expect(found).toMatchObject({
    ...{ maxMachines: 5, selfReleases: 2, showsMachines: false, maxOfflineDays: 14 },
    ...{ termDays: 30, latestStart: new Date("2030-01-31T23:59:59Z"), startedAt: null },
    expiresAt: new Date("2030-03-02T23:59:59Z"),
  });
  const facts = textsOf(text, ".facts div");
  expect(facts).toContain("Term 30 days from its first use, at the latest from 2030-01-31");
  expect(facts).toContainEqual(expect.stringMatching(/^Expires at the latest 2030-03-02/));
});

test.each([
  [{ starts_on_first_use: "yes" }, "term_days", "needs term days"],
  [{ term_days: "30" }, "starts_on_first_use", "are only for a license that starts on its first use"],
  [
    { starts_on_first_use: "yes", term_days: "30", latest_start: "2020-01-31" },
    "latest_start",
    "in the past",
  ],
])("A wrong term is named, and no key is issued: %j", async (wrong, name, error) => {
  const before = await client.countRows("keys");
  const form = { email: "wrong-term@example.org", tier: "free", mode: "live", last_day: "2028-02-29" };
  const { status, text } = await send({ ...form, ...wrong });
  expect(status).toBe(400);
  expect(textsOf(text, `#issue-${name}-error`)).toEqual([expect.stringContaining(error)]);
  expect(attributesOf(text, "[aria-invalid=true]", "id")).toEqual([`issue-${name}`]);
  expect(attributesOf(text, "[aria-invalid=true]", "aria-describedby")).toEqual([
    expect.stringContaining(`issue-${name}-error`),
  ]);
  expect(attributesOf(text, "[autofocus]", "id")).toEqual([`issue-${name}`]);
  expect(await client.countRows("keys")).toBe(before);
});

test("A right term is not called wrong beside another field that is wrong", async () => {
  const term = { starts_on_first_use: "yes", term_days: "30" };
  const { status, text } = await send({ email: "wrong", tier: "free", mode: "live", ...term });
  expect(status).toBe(400);
  expect(textsOf(text, ".error")).toHaveLength(1);
  expect(textsOf(text, "#issue-term_days-error")).toEqual([]);
});

test("A license gets features beside its tier and values, and the page says which", async () => {
  const own_features = "custom_models until 2030-06-30, no streaming";
  const own_entitlements = 'channels=64, name="a, b"';
  const { status, text } = await send({
    ...{ email: "own@example.org", tier: "research", mode: "live", never: "yes" },
    ...{ own_features, own_entitlements },
  });
  expect(status).toBe(200);
  const [apiKey = ""] = textsOf(text, "#new-key");
  const found = await findKey(admin.database, { hash: hashApiKey(apiKey) }, { now: admin.clock.now() });
  expect(found).toMatchObject({
    ownFeatures: {
      custom_models: { granted: true, until: "2030-06-30T23:59:59Z" },
      streaming: { granted: false },
    },
    ownEntitlements: { channels: 64, name: "a, b" },
  });
  const facts = textsOf(text, ".facts div");
  expect(facts).toContain(`Features beside the tier ${own_features}`);
  expect(facts).toContain(`Values ${own_entitlements}`);
});

test.each([
  ["own_features", "custom models", "names of features separated by commas"],
  ["own_features", "custom_models until 2020-01-01", "the end of the feature custom_models has passed"],
  ["own_entitlements", "channels", "values separated by commas"],
])("A wrong %s is named, and no key is issued: %j", async (name, text, error) => {
  const before = await client.countRows("keys");
  const form = { email: "wrong-own@example.org", tier: "free", mode: "live", never: "yes", [name]: text };
  const { status, text: page } = await send(form);
  expect(status).toBe(400);
  expect(textsOf(page, `#issue-${name}-error`)).toEqual([expect.stringContaining(error)]);
  expect(attributesOf(page, `#issue-${name}`, "value")).toEqual([text]);
  expect(await client.countRows("keys")).toBe(before);
});

test("The message for the customer has the key, what it is, and a command that tries it", async () => {
  const form = { email: "copy@example.org", tier: "free", mode: "live", never: "yes" };
  const { text } = await send({ ...form, name: "Grace <b> {key}" });
  const [apiKey = ""] = textsOf(text, "#new-key");
  expect(textsOf(text, "#message")).toEqual([
    [
      "Hello Grace <b> {key},",
      "this is your API key (free, live; it does not expire):",
      apiKey,
      "To try it:",
      `curl -s https://keys.example.org/v1/auth/validate -d '{"api_key":"${apiKey}"}'`,
      "Keep it secret: anyone who has it can use your quota.",
    ].join(" "),
  ]);
});

test("The message names the customer that has an account already, or without a name the e-mail", async () => {
  const form = { email: "hello@example.org", tier: "free", mode: "live", never: "yes" };
  const messageOf = async (more: object = {}) =>
    textsOf((await send({ ...form, ...more })).text, "#message")[0];
  expect(await messageOf()).toStartWith("Hello hello@example.org, this is");
  await admin.issue({ email: "named@example.org", name: "Grace" });
  expect(await messageOf({ email: "named@example.org" })).toStartWith("Hello Grace, this is");
});

test("The message says how long a license works that starts on its first use", async () => {
  const form = { email: "term@example.org", tier: "free", mode: "live" };
  const term = { starts_on_first_use: "yes", term_days: "30", latest_start: "2030-01-31" };
  expect(textsOf((await send({ ...form, ...term })).text, "#message")[0]).toContain(
    "(free, live; it works for 30 days from its first use, at the latest from 2030-01-31):",
  );
});

describe("A listener whose message or address is not the usual one", () => {
  const file = join(mkdtempSync(join(testFolder(), "message-")), "message.txt");
  const issueOn = async (options: Partial<AdminAppOptions>) => {
    const other = await startAdmin({ on: admin.testDatabase, admin: options });
    try {
      const visitor = createConsoleClient(other);
      const { cookie: own } = await visitor.logIn("editor");
      const form = { email: "own@example.org", tier: "free", mode: "test", never: "yes" };
      const { status, text } = await visitor.send("/keys/issue", { cookie: own, form });
      expect(status).toBe(200);
      return {
        key: textsOf(text, "#new-key")[0] ?? "",
        message: textsOf(text, "#message")[0],
        warnings: textsOf(text, ".notice.warning").filter((each) => !each.startsWith("Added")),
      };
    } finally {
      await other.close();
    }
  };

  test("shows the text of the file, read anew for each key", async () => {
    for (const greeting of ["Hi", "Good day"]) {
      writeFileSync(file, `\ufeff${greeting}, {name}!\n{key} {license} {address} {"a":1}\n`);
      const { key, message, warnings } = await issueOn({ customerMessageFile: file });
      const license = "free, test; it does not expire https://licenses.example.org";
      expect(message).toBe(`${greeting}, own@example.org! ${key} ${license} {"a":1}`);
      expect(warnings).toEqual([]);
    }
  });

  test.each([
    ["Hello {nmae}: {key}", "it has {nmae}, and the placeholders are {key}, {license}, {address}, {name}"],
    ["Hello", "it has no {key}"],
    [`{key}${"x".repeat(10_000)}`, "it has more than 10000 bytes"],
    [undefined, "there is no such file"],
  ])("shows the usual message and a warning for a wrong file, and issues the key: %j", async (text, why) => {
    rmSync(file, { force: true });
    if (text !== undefined) writeFileSync(file, text);
    const { key, message, warnings } = await issueOn({ customerMessageFile: file });
    expect(message).toStartWith("Hello own@example.org, this is your API key");
    expect(message).toContain(key);
    expect(warnings).toEqual([`Cannot use the message in ${file}: ${why}. This is the usual message.`]);
  });

  test.each([undefined, "http://127.0.0.1:8080", "http://localhost:8080", "http://[::1]:8080/a"])(
    "warns in place of an address that customers cannot reach: %s",
    async (publicUrl) => {
      const { message, warnings } = await issueOn({ publicUrl });
      expect(message).toContain("curl -s https://ADDRESS-IS-MISSING/v1/auth/validate");
      expect(warnings).toEqual([expect.stringContaining("or set CLAVIGER_PUBLIC_URL")]);
    },
  );
});

test("Every wrong field is named, and what was entered is kept", async () => {
  const { status, text } = await send({
    email: "",
    tier: "",
    mode: "live",
    name: "Grace <b>",
    monthly_limit: "many",
    last_day: "2001-01-01",
  });
  expect(status).toBe(400);
  expect(text).toContain("No key was issued: correct the 4 marked fields.");
  expect(attributesOf(text, "[aria-invalid=true]", "id")).toEqual([
    ...["issue-email", "issue-tier", "issue-last_day", "issue-monthly_limit"],
  ]);
  expect(textsOf(text, "#issue-email-error")).toEqual([
    "It must be an e-mail address, such as ada@example.org",
  ]);
  expect(textsOf(text, "#issue-tier-error")).toEqual([
    "It must be one of free, research, commercial, enterprise",
  ]);
  expect(attributesOf(text, "#issue-name", "value")).toEqual(["Grace <b>"]);
  expect(attributesOf(text, "#issue-monthly_limit", "value")).toEqual(["many"]);
});

test("An account that has another name is a refusal without a command", async () => {
  await admin.issue({ email: "known@example.org", name: "Known" });
  const form = { email: "known@example.org", tier: "free", mode: "live", never: "yes", name: "Another" };
  const { status, text } = await send(form);
  expect(status).toBe(409);
  const [refusal] = textsOf(text, "[role=alert]");
  expect(refusal).toContain(
    "Cannot issue key: the account known@example.org has another name or organization",
  );
  expect(refusal).not.toContain("claviger ");
});
