/** Nothing ends earlier without a word for it, at any door; the answer to a change says what changed. */
import { beforeAll, describe, expect, test } from "bun:test";
import { generateApiKey } from "../../src/licensing/keys/mod.ts";
import { dumpText } from "../support/dump.ts";
import { BRAND } from "../support/issue.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { newIdempotencyKey, newName } from "./sample_requests.ts";

const admin = useAdmin();
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn());
});

const LATER = new Date("2029-08-28T12:00:00Z");
const EARLIER = "2029-06-30T23:59:59Z";
const WHY = "the expiry would become earlier, from 2029-08-28T12:00:00Z to 2029-06-30T23:59:59Z";

interface Answer {
  readonly isDone: boolean;
  readonly text: string;
}

/** Gives a license or a token an end, with the word for an earlier one or without it. */
type Door = (subject: { id: string; licenseId: string; token: string }, says: boolean) => Promise<Answer>;

async function command(...args: string[]): Promise<Answer> {
  const { status, out, err } = await commands.run(args);
  return { isDone: status === 0, text: out + err };
}

async function page(path: string, form: Record<string, string>): Promise<Answer> {
  const { status, text } = await client.send(path, { cookie, form });
  return { isDone: status < 400, text };
}

const SHORTEN = (says: boolean) => (says ? ["--shorten"] : []);
const BOX = (says: boolean): Record<string, string> => (says ? { shorten: "yes" } : {});

const DOORS: Readonly<Record<string, Door>> = {
  "keys renew": ({ id }, says) =>
    command("keys", "renew", id, "--expires-at", "2029-06-30", ...SHORTEN(says)),
  "PATCH /licenses/{id}": async ({ licenseId }, says) => {
    const body = { expires_at: "2029-06-30", ...(says && { shorten: true }) };
    const { status, body: answer } = await admin.call("PATCH", `/licenses/${licenseId}`, { body });
    return { isDone: status === 200, text: JSON.stringify(answer) };
  },
  "form of a key": ({ id }, says) => page(`/keys/${id}/renew`, { last_day: "2029-06-30", ...BOX(says) }),
  "tokens renew": ({ token }, says) =>
    command("tokens", "renew", token, "--expires-at", "2029-06-30", ...SHORTEN(says)),
  "form of a token": ({ token }, says) =>
    page(`/access/tokens/${token}/renew`, { expires_at: "2029-06-30", ...BOX(says) }),
};

async function newSubject() {
  const { id } = await admin.issue({ expiresAt: LATER });
  const token = newName();
  await admin.token({ name: token, scopes: ["status:read"], expiresAt: LATER });
  const licenseId: string = (await admin.call("GET", `/keys/${id}`)).body.license_id;
  return { id, licenseId, token };
}

const endsOf = async ({ id, token }: { id: string; token: string }) => {
  const [row] = await admin.database.query<{ at: Date }>(
    (sql) => sql`select expires_at as at from tokens where name = ${token}`,
  );
  return [
    (await admin.call("GET", `/keys/${id}`)).body.expires_at,
    row?.at.toISOString().replace(".000Z", "Z"),
  ];
};

describe.each(Object.entries(DOORS))("An earlier end by %s", (_name, door) => {
  test("is refused with both times, and changes nothing", async () => {
    const subject = await newSubject();
    const before = await dumpText(admin.database);
    const { isDone, text } = await door(subject, false);
    expect(isDone).toBe(false);
    expect(text).toContain(WHY);
    const tables = (dump: string) => dump.replaceAll(/last_(used|seen)_at[^,]*/g, "");
    expect(tables(await dumpText(admin.database))).toBe(tables(before));
  });

  test("is made if it is asked for", async () => {
    const subject = await newSubject();
    expect((await door(subject, true)).isDone).toBe(true);
    expect(await endsOf(subject)).toContain(EARLIER);
  });
});

test("The answers name what changed with its values before", async () => {
  const { id, licenseId, token } = await newSubject();
  const renewed = await commands.run(["keys", "renew", id, "--expires-at", "2029-06-30", "--shorten"]);
  expect(renewed.err).toContain("Changed: expiry from 2029-08-28 to 2029-06-30");
  expect(await commands.json(["keys", "tier", id, "free"])).toMatchObject({
    changed: true,
    before: { tier: "research", monthly_limit: 50_000 },
  });
  const body = { expires_at: "never", max_machines: 3 };
  expect((await admin.call("PATCH", `/licenses/${licenseId}`, { body })).body).toMatchObject({
    changed: true,
    before: { expires_at: EARLIER, max_machines: null },
  });
  expect((await admin.call("PATCH", `/licenses/${licenseId}`, { body })).body).toMatchObject({
    changed: false,
    before: {},
  });
  const args = ["tokens", "renew", token, "--expires-at", "2029-06-30", "--shorten"];
  expect((await commands.run(args)).err).toContain(`Changed: expiry from 2029-08-28T12:00:00Z to ${EARLIER}`);
});

test.each([
  [{ shorten: true }, "shorten needs one of expires_at, updates_until, own_features"],
  [{ shorten: true, reason: "why" }, "shorten needs one of expires_at, updates_until, own_features"],
  [{ shorten: "yes", expires_at: "never" }, "shorten must be true or false"],
])("PATCH /licenses/{id} refuses %j", async (body, why) => {
  const { licenseId } = await newSubject();
  const answer = await admin.call("PATCH", `/licenses/${licenseId}`, { body });
  expect(answer.status).toBe(400);
  expect(JSON.stringify(answer.body)).toContain(why);
});

describe("No other door makes a license shorter:", () => {
  test("the same order again, with another end", async () => {
    const { id } = await admin.issue({ email: "again@example.org", externalId: "order-1", expiresAt: LATER });
    const body = {
      email: "again@example.org",
      tier: "research",
      external_id: "order-1",
      expires_at: "2028-01-01",
    };
    const { status } = await admin.call("POST", "/keys", { body, headers: newIdempotencyKey() });
    expect(status).toBe(409);
    expect((await admin.call("GET", `/keys/${id}`)).body.expires_at).toBe("2029-08-28T12:00:00Z");
  });

  test("the import of a key that is known", async () => {
    const { apiKey } = generateApiKey(BRAND, "live");
    const line = (expires_at: string) =>
      `${JSON.stringify({ api_key: apiKey, email: "known@example.org", tier: "free", expires_at })}\n`;
    expect((await commands.run(["keys", "import", "-"], { input: line("2029-08-28") })).status).toBe(0);
    const again = await commands.run(["keys", "import", "-"], { input: line("2028-01-01") });
    expect(again.err).toContain("is known already");
    const [row] = await admin.database.query<{ at: Date }>(
      (sql) => sql`select expires_at as at from licenses l join accounts a on a.id = l.account_id
                    where email = 'known@example.org'`,
    );
    expect(row?.at.toISOString()).toBe("2029-08-28T23:59:59.000Z");
  });

  test("the renewal of an account, which only adds", async () => {
    const { id, userId } = await admin.issue({ expiresAt: LATER });
    await admin.call("POST", `/accounts/${userId}/renew`, { body: {} });
    expect((await admin.call("GET", `/keys/${id}`)).body.expires_at).toBe("2030-08-28T12:00:00Z");
  });
});
