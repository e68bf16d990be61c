/** A day alone as the end of something is its last second, UTC, at every door that reads an end, and may be today. */
import { beforeAll, describe, expect, test } from "bun:test";
import { generateApiKey } from "../../src/licensing/keys/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { BRAND } from "../support/issue.ts";
import { uuidOf } from "../support/keys.ts";
import { useAdmin, useForAll } from "../support/use.ts";
import { commandsOn } from "./commands_on.ts";
import { createConsoleClient } from "./console_client.ts";
import { newIdempotencyKey, newName } from "./sample_requests.ts";

// At noon, so that an hour later is the same day.
const admin = useAdmin({ clock: createTestClock("2026-11-28T12:00:00Z") });
const commands = useForAll(() => commandsOn(admin.testDatabase, admin.clock));
const client = createConsoleClient(admin);
let cookie: string;
beforeAll(async () => {
  ({ cookie } = await client.logIn());
});

const HOUR = 3_600_000;
const PAST = "the expiry lies in the past";
const FORM = "must be a day such as";

/** Sends a text as an end. Returns the end that is stored, or the answer if it was refused. */
type Door = (text: string) => Promise<string>;

async function command(args: readonly string[], find: () => Promise<string>, input?: string) {
  const { status, err } = await commands.run(args, input === undefined ? {} : { input });
  return status === 0 ? await find() : err;
}

async function api(method: string, path: string, body: object, find: () => Promise<string>) {
  const { status, body: answer } = await admin.call(method, path, { body, headers: newIdempotencyKey() });
  return status < 300 ? await find() : JSON.stringify(answer);
}

async function page(path: string, form: Record<string, string>, find: () => Promise<string>) {
  const { status, text } = await client.send(path, { cookie, form });
  return status < 400 ? await find() : text;
}

/** Returns when the license ends whose account has this e-mail. */
const endOf = (email: string) =>
  read(
    (sql) => sql`select expires_at as at from licenses l
                        join accounts a on a.id = l.account_id where email = ${email}`,
  );
const endOfToken = (name: string) =>
  read((sql) => sql`select expires_at as at from tokens where name = ${name}`);
const endOfInstallerToken = () => read((sql) => sql`select expires_at as at from installer_token`);

async function read(build: Parameters<typeof admin.database.query>[0]): Promise<string> {
  const [row] = await admin.database.query<{ at: Date }>(build as never);
  return row?.at?.toISOString().replace(".000Z", "Z") ?? "none";
}

let made = 0;
const newEmail = () => `last-day-${++made}@example.org`;

/** A door that issues a key for a new account. */
const issuing =
  (send: (text: string, email: string, find: () => Promise<string>) => Promise<string>): Door =>
  (text) => {
    const email = newEmail();
    return send(text, email, () => endOf(email));
  };

/** A door that renews a license that ends in an hour. */
const renewing =
  (
    send: (
      text: string,
      key: { id: string; licenseId: string },
      find: () => Promise<string>,
    ) => Promise<string>,
  ): Door =>
  async (text) => {
    const email = newEmail();
    const key = await admin.issue({ email, expiresAt: new Date(admin.clock.nowMs() + HOUR) });
    const { license_id: licenseId } = (await admin.call("GET", `/keys/${key.id}`)).body;
    return await send(text, { id: key.id, licenseId }, () => endOf(email));
  };

/** A door that renews a token that ends in an hour. */
const renewingToken =
  (send: (text: string, name: string, find: () => Promise<string>) => Promise<string>): Door =>
  async (text) => {
    const name = newName();
    await admin.token({ name, scopes: ["status:read"], expiresAt: new Date(admin.clock.nowMs() + HOUR) });
    return await send(text, name, () => endOfToken(name));
  };

const lineOf = (email: string, text: string) => ({
  api_key: generateApiKey(BRAND, "live").apiKey,
  ...{ email, tier: "free", expires_at: text },
});

const importing = (toFile: (line: object) => string) =>
  issuing((text, email, find) => command(["keys", "import", "-"], find, toFile(lineOf(email, text))));

const DOORS: Readonly<Record<string, Door>> = {
  "keys issue": issuing((text, email, find) =>
    command(["keys", "issue", "--email", email, "--tier=free", `--expires-at=${text}`], find),
  ),
  "POST /keys": issuing((expires_at, email, find) =>
    api("POST", "/keys", { email, tier: "free", expires_at }, find),
  ),
  "keys import of JSON": importing((line) => `${JSON.stringify(line)}\n`),
  "keys import of CSV": importing(
    (line) => `${Object.keys(line).join(",")}\n${Object.values(line).join(",")}\n`,
  ),
  "keys renew": renewing((text, { id }, find) =>
    command(["keys", "renew", id, `--expires-at=${text}`], find),
  ),
  "PATCH /licenses/{id}": renewing((expires_at, { licenseId }, find) =>
    api("PATCH", `/licenses/${licenseId}`, { expires_at }, find),
  ),
  "tokens issue": (text) => {
    const name = newName();
    const args = ["tokens", "issue", "--name", name, "--scope=status:read", `--expires-at=${text}`];
    return command(args, () => endOfToken(name));
  },
  "form of a new token": (expires_at) => {
    const name = newName();
    return page("/access/issue-token", { name, scopes: "status:read", expires_at }, () => endOfToken(name));
  },
  "tokens renew": renewingToken((text, name, find) =>
    command(["tokens", "renew", name, `--expires-at=${text}`], find),
  ),
  "form of a token": renewingToken((expires_at, name, find) =>
    page(`/access/tokens/${name}/renew`, { expires_at }, find),
  ),
  "installer set-token": (text) =>
    command(["installer", "set-token", `--expires-at=${text}`], endOfInstallerToken, "ghp_x"),
};

/** Forms that ask for the last day: they read no time. */
const FORMS_OF_DAYS: Readonly<Record<string, Door>> = {
  "form of a new key": issuing((last_day, email, find) =>
    page("/keys/issue", { email, tier: "free", mode: "live", last_day }, find),
  ),
  "form of a key": renewing((last_day, { id }, find) => page(`/keys/${id}/renew`, { last_day }, find)),
};

const TODAY = () => admin.clock.now().toISOString().slice(0, 10);
const YESTERDAY = () => new Date(admin.clock.nowMs() - 24 * HOUR).toISOString().slice(0, 10);
const ALL = Object.entries({ ...DOORS, ...FORMS_OF_DAYS });
/** An import keeps keys that ended already, so that their use and their customers are known. */
const keepsPast = (door: string) => door.startsWith("keys import");

describe.each(ALL)("A day alone by %s", (name, door) => {
  test("is its last second, also of today", async () => {
    expect(await door("2027-01-31")).toBe("2027-01-31T23:59:59Z");
    expect(await door("2028-02-29")).toBe("2028-02-29T23:59:59Z");
    expect(await door(TODAY())).toBe(`${TODAY()}T23:59:59Z`);
  });

  test("is refused in the past, and if there is no such day", async () => {
    const past = await door(YESTERDAY());
    if (keepsPast(name)) expect(past).toBe(`${YESTERDAY()}T23:59:59Z`);
    else expect(past).toContain(PAST);
    for (const none of ["2027-02-30", "2027-02-29", "2027-13-01", "31.01.2027", "27-01-31"])
      expect(await door(none)).toContain(FORM);
  });
});

describe.each(Object.entries(DOORS))("A time by %s", (_name, door) => {
  test("is that time", async () => {
    expect(await door("2027-01-31T12:00:00Z")).toBe("2027-01-31T12:00:00Z");
    expect(await door("2027-01-31T00:00:00+01:00")).toBe("2027-01-30T23:00:00Z");
  });
});

test("never is no end at the doors of licenses", async () => {
  const ofLicenses = Object.entries(DOORS).filter(([name]) => /^(keys|POST|PATCH)/.test(name));
  expect(ofLicenses.length).toBe(6);
  for (const [, door] of ofLicenses) expect(await door("never")).toBe("9999-12-31T23:59:59Z");
  for (const name of ["tokens renew", "form of a token"]) expect(await DOORS[name]?.("never")).toBe("none");
});

test("A key works in the last second of its last day, and no longer", async () => {
  const { id } = await admin.issue({ expiresAt: new Date(admin.clock.nowMs() + HOUR) });
  await commands.run(["keys", "renew", id, `--expires-at=${TODAY()}`]);
  const states = await Promise.all(
    ["T23:59:58Z", "T23:59:59Z"].map(async (time) => {
      const [row] = await admin.database.query<{ works: boolean }>(
        (sql) => sql`select expires_at > ${`${TODAY()}${time}`}::timestamptz as works
                       from listed_keys where key_id = ${uuidOf({ id })}::uuid`,
      );
      return row?.works;
    }),
  );
  expect(states).toEqual([true, false]);
});
