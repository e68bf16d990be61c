/** The scripts of the page `follow`: every row is delivered, in order, through receivers and scripts that end. */
import { afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { monthOf } from "../../src/base/calendar.ts";
import { systemClock } from "../../src/base/clock.ts";
import { withDatabase } from "../../src/cli/run.ts";
import type { Database } from "../../src/database/mod.ts";
import { makeNotices } from "../../src/notices/mod.ts";
import { SETTINGS } from "../notices/notices_kit.ts";
import { SOURCE } from "../support/service_process.ts";
import { startSmtpReceiver } from "../support/smtp_receiver.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { createIssuer, createTestInvocation, type RunningService } from "./command_line.ts";
import { useCommandLine } from "./use_command_line.ts";

// Scripts and receivers start again and again.
setDefaultTimeout(120_000);

const PAGE = readFileSync(join(import.meta.dir, "../../src/cli/guide/follow.md"), "utf8");
const line = useCommandLine({ prepared: true });
const issue = createIssuer(line);
const bin = join(line.folder, "bin");
const scripts = join(line.folder, "scripts");
let service: RunningService;
useForAll(async () => ({ close: async () => void (await service.stop()) }));
const running: { kill(): Promise<void> }[] = [];

beforeAll(async () => {
  service = await line.serve();
  mkdirSync(bin);
  mkdirSync(scripts);
  const place = `--data-dir ${line.dataDir} --env-file ${join(line.folder, "empty.env")}`;
  writeScript(
    join(bin, "claviger"),
    `#!/bin/sh\n[ -z "$STATE_DIRECTORY" ] || exit 2\nexec ${SOURCE.join(" ")} "$@" ${place}\n`,
  );
  const blocks = [
    ...PAGE.matchAll(/`\/usr\/local\/lib\/claviger\/(\w+)`[^`]*\(mode 755\)[\s\S]*?```bash\n([\s\S]*?)```/g),
  ];
  expect(blocks.map(([, name]) => name)).toEqual(["deliver", "mail", "post", "journal"]);
  for (const [, name = "", script = ""] of blocks) writeScript(join(scripts, name), script);
});
afterEach(async () => {
  for (const delivery of running.splice(0)) await delivery.kill();
});

function writeScript(path: string, text: string): void {
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

/** Runs the script that delivers, as its unit does: all its processes end together. */
function deliver(
  command: string,
  { folder, env, actions = ["--action", "key.issue"], args = [] }: DeliverOptions,
) {
  const state = join(line.folder, folder);
  mkdirSync(state, { recursive: true });
  const child = spawn(join(scripts, "deliver"), [join(scripts, command), ...actions, ...args], {
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: `${bin}:${process.env.PATH}`, STATE_DIRECTORY: state, RETRY_SECONDS: "0.2", ...env },
  });
  let err = "";
  child.stderr.on("data", (chunk) => (err += chunk));
  const ended = new Promise<number | null>((resolve) => child.once("close", (status) => resolve(status)));
  const delivery = {
    ended,
    err: () => err,
    cursor: () => (existsSync(join(state, "cursor")) ? readFileSync(join(state, "cursor"), "utf8") : ""),
    async kill() {
      try {
        process.kill(-(child.pid ?? 0), "SIGKILL");
      } catch {
        // It has ended.
      }
      await ended;
    },
  };
  running.push(delivery);
  return delivery;
}

interface DeliverOptions {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** By default issued keys alone, which other tests of this file do not disturb. */
  readonly actions?: readonly string[];
  readonly args?: readonly string[];
}

const issueMany = async (many: number) => {
  const ids: string[] = [];
  for (let index = 0; index < many; index++) ids.push((await issue()).id);
  return ids;
};

/** Leaves out each delivery that the one before it had, too. */
const withoutRepeats = (all: readonly string[]) => all.filter((each, index) => each !== all[index - 1]);

const mailTo = (port: number) => ({
  MAIL_URL: `smtp://127.0.0.1:${port}`,
  MAIL_FROM: "claviger@example.org",
  MAIL_TO: "licenses@example.org",
});

/** Lets the task of notices run once, as a service does every ten minutes, after what happens `before`. */
async function makeNoticesNow(
  before: (database: Database) => Promise<unknown> = async () => {},
): Promise<void> {
  const { invocation } = createTestInvocation(line.folder, {});
  const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
  await withDatabase(invocation, place, async ({ database }) => {
    await before(database);
    await makeNotices({ database, clock: systemClock, isStopping: () => false }, SETTINGS);
  });
}

test("A notice becomes a mail with its sentence, and so does its end; other changes become none", async () => {
  const [, settings = ""] = /^ACTIONS='(.*)'$/m.exec(PAGE) ?? [];
  const receiver = await startSmtpReceiver();
  const delivery = deliver("mail", {
    ...{ folder: "notices", env: { ...mailTo(receiver.port), ACTIONS: settings } },
    actions: [],
  });
  await until(() => delivery.cursor() !== "", { what: "the script has begun" });
  const { id } = await issue("--monthly-limit", "10");
  const { license_id, email } = await line.json(["keys", "show", id]);
  await makeNoticesNow((database) =>
    database.query(
      (sql) => sql`
        insert into usage (license_id, month, used)
        values (${license_id.slice(4)}::uuid, ${monthOf(Date.now()).firstDay}::date, 10)`,
    ),
  );
  await until(() => receiver.mails.length === 1, { what: `a mail: ${delivery.err()}` });
  const [head = "", text = ""] = receiver.mails[0]?.split("\r\n\r\n") ?? [];
  const subject = /^Subject: (.*)$/m.exec(head)?.[1] ?? "";
  expect(subject).toStartWith(`Claviger: The license of ${email} (svc_live_`);
  expect(subject).toContain("has used its quota up: 10 of 10");
  expect(text).toStartWith(`The license of ${email} (`);
  await line.json(["keys", "limit", id, "100"]);
  await makeNoticesNow();
  await until(() => receiver.mails.length === 2, { what: `a second mail: ${delivery.err()}` });
  expect(receiver.mails[1]).toContain(
    `Subject: Claviger: Withdrawn, because the limit is another one now: The license of ${email} (`,
  );
  await receiver.close();
});

test("Each change becomes a mail, in order, although the mail server restarts, an answer is lost and the script is killed", async () => {
  const ids: string[] = [];
  let losesAnswer = true;
  const seen: string[] = [];
  const keep = (mail: string) => {
    seen.push(/"key_id": "(key_\w+)"/.exec(mail)?.[1] ?? "");
    const isAnswered = !losesAnswer;
    losesAnswer = false;
    return isAnswered;
  };
  let receiver = await startSmtpReceiver({ isAnswered: keep });
  const { port } = receiver;
  const options = { folder: "mail", env: mailTo(port) };
  let delivery = deliver("mail", options);
  await until(() => delivery.cursor() !== "", { what: "the script has begun" });
  const delivered = () => withoutRepeats(seen);
  ids.push(...(await issueMany(3)));
  await until(() => delivered().length === 3, { what: `3 mails: ${delivery.err()}` });
  expect(seen).toHaveLength(4);
  const [mail = ""] = receiver.mails;
  expect(mail.split("\r\n\r\n")[0]).toMatch(
    /^From: claviger@example\.org\r\nTo: licenses@example\.org\r\nDate: [^\r]+\r\nMessage-ID: <aud_[0-9a-f]{32}@claviger\.invalid>\r\nSubject: Claviger: command:olga: key\.issue\r\n/,
  );
  expect(receiver.mails[1]?.match(/Message-ID: .*/)?.[0]).toBe(/Message-ID: .*/.exec(mail)?.[0]);

  await receiver.close();
  ids.push(...(await issueMany(2)));
  await until(() => delivery.err().includes("onnect"), { what: "the mail server does not answer" });
  await delivery.kill();
  ids.push(...(await issueMany(1)));
  delivery = deliver("mail", options);
  await Bun.sleep(500);
  receiver = await startSmtpReceiver({ port, isAnswered: keep });
  await until(() => delivered().length >= 5, { what: `5 mails: ${delivery.err()}` });
  await delivery.kill();
  ids.push(...(await issueMany(1)));
  delivery = deliver("mail", options);
  await until(() => delivered().length >= 7, { what: `7 mails: ${delivery.err()}` });
  expect(delivered()).toEqual(ids);
  await receiver.close();
});

test("A row of an old version, which has no unique id, is known by its number to mail servers and ticket systems", async () => {
  const mails = await startSmtpReceiver();
  const posted: (string | null)[] = [];
  const posts = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      posted.push(request.headers.get("idempotency-key"));
      return new Response("");
    },
  });
  const { invocation } = createTestInvocation(line.folder, {});
  const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
  const rows = await withDatabase(invocation, place, ({ database }) =>
    database.query<{ name: string }>(
      (sql) => sql`
        insert into audit (at, actor, action, unique_id)
        select now(), 'command:t', 'database.restore', null from generate_series(1, 2)
        returning 'row-' || id as name`,
    ),
  );
  const names = rows.map(({ name }) => name);
  const options = { actions: ["--action", "database.restore"], args: ["--after", "start"] };
  deliver("mail", { ...options, folder: "nameless_mails", env: mailTo(mails.port) });
  const env = { POST_URL: `http://127.0.0.1:${posts.port}/` };
  const delivery = deliver("post", { ...options, folder: "nameless_posts", env });
  await until(() => mails.mails.length === 2 && posted.length === 2, { what: delivery.err() });
  expect(mails.mails.map((mail) => /^Message-ID: <(.*)@claviger\.invalid>\r$/m.exec(mail)?.[1])).toEqual(
    names,
  );
  expect(posted).toEqual(names);
  await mails.close();
  await posts.stop(true);
});

test("Rows that are not asked for are passed over, and a row that is always refused is left out behind its cursor", async () => {
  const seen: string[] = [];
  let isRefused = true;
  const receiver = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const { row } = (await request.json()) as { row: { key_id: string } };
      if (!isRefused) seen.push(row.key_id);
      return new Response("", { status: isRefused ? 400 : 200 });
    },
  });
  const env = { POST_URL: `http://127.0.0.1:${receiver.port}/`, ACTIONS: "^key\\.issue$" };
  const options = { folder: "refused", env, actions: [] };
  const delivery = deliver("post", options);
  await until(() => delivery.cursor() !== "");
  const begin = delivery.cursor();
  const { invocation } = createTestInvocation(line.folder, {});
  const place = { dataDir: line.dataDir, envFile: join(line.folder, "empty.env") };
  await withDatabase(invocation, place, ({ database }) =>
    database.query(
      (sql) => sql`
        insert into audit (at, actor, action) select now(), 'command:t', 'test.other' from generate_series(1, 1500)`,
    ),
  );
  await until(() => delivery.cursor() !== begin, { what: "the cursor of the thousandth row" });
  const [refused] = await issueMany(1);
  await until(() => delivery.err().includes("Not accepted"), { what: delivery.err() });
  await delivery.kill();
  const [, cursor = ""] = /the row with the cursor (\S+)/.exec(delivery.err()) ?? [];
  writeFileSync(join(line.folder, "refused", "cursor"), cursor);
  isRefused = false;
  deliver("post", options);
  const ids = await issueMany(2);
  await until(() => seen.length === 2);
  expect(seen).toEqual(ids);
  expect(ids).not.toContain(refused ?? "");
  await receiver.stop(true);
});

test("Each change is posted to an address that restarts and refuses, with its id, and a failover ends the script with status 4", async () => {
  const seen: { readonly id: string | null; readonly key: string; readonly text: string }[] = [];
  let refuses = 1;
  const serve = (port: number) =>
    Bun.serve({
      port,
      hostname: "127.0.0.1",
      async fetch(request) {
        if (refuses-- > 0) return new Response("", { status: 503 });
        const { text, row } = (await request.json()) as { text: string; row: { key_id: string } };
        seen.push({ id: request.headers.get("idempotency-key"), key: row.key_id, text });
        return new Response("");
      },
    });
  let receiver = serve(0);
  const { port } = receiver;
  const options = { folder: "post", env: { POST_URL: `http://127.0.0.1:${port}/secret` } };
  const delivery = deliver("post", options);
  await until(() => delivery.cursor() !== "");
  const ids = await issueMany(2);
  await until(() => seen.length === 2, { what: delivery.err() });
  await receiver.stop(true);
  ids.push(...(await issueMany(2)));
  await Bun.sleep(500);
  receiver = serve(port ?? 0);
  await until(() => seen.length >= 4, { what: delivery.err() });
  expect(withoutRepeats(seen.map(({ key }) => key))).toEqual(ids);
  expect(seen[0]).toMatchObject({ id: expect.stringMatching(/^aud_/), text: "command:olga: key.issue" });
  await until(() => /\.\d+$/.test(delivery.cursor()));
  await delivery.kill();

  const state = join(line.folder, "post", "cursor");
  writeFileSync(state, `${"0".repeat(32)}.1.1`);
  expect(await deliver("post", options).ended).toBe(4);
  // As the page says: begin again.
  writeFileSync(state, "start");
  const again = deliver("post", { ...options, args: ["--since", "2020-01-01T00:00:00Z"] });
  const count = seen.length;
  await until(() => seen.slice(count).at(-1)?.key === ids.at(-1), { what: again.err() });
  const repeated = seen.slice(count).filter(({ key }) => ids.includes(key));
  expect(repeated.map(({ id }) => id)).toEqual(
    ids.map((key) => seen.find((each) => each.key === key)?.id ?? null),
  );
  await receiver.stop(true);
});
