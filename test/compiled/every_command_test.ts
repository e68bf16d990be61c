/**
 * The service's user runs every command on its data folder while no service runs, as on a stopped installation. Root
 * may run none of them there, and gets the line to type.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { leavesOf } from "../../src/cli/guide/write_tables.ts";
import { createProgram } from "../../src/cli/program.ts";
import { createTestInvocation } from "../cli/command_line.ts";
import { type BucketStandIn, REGION, startBucketStandIn } from "../support/bucket_stand_in.ts";
import { reportFromLicense } from "../usage/reports/report_kit.ts";
import { builtExecutable } from "./executable.ts";
import { canActAsBoth, createTwoUsers, NOBODY, ROOT, type TwoUsers } from "./two_users.ts";

setDefaultTimeout(180_000);

/** `root_test.ts` has `serve`; the other commands here use no data folder. */
const OTHERS = ["serve", "health", "systemd", "guide", "completion", "version"];
/** They read settings or a file, and touch no data folder. */
const FOR_ROOT = ["config check", "backup --verify"];

describe.skipIf(!canActAsBoth)("while no service runs", () => {
  let users: TwoUsers;
  let bucket: BucketStandIn;
  beforeAll(async () => {
    users = createTwoUsers();
    bucket = await startBucketStandIn();
    writeFileSync(join(users.folder, "bucket.credentials"), bucket.credentials);
  });
  afterAll(async () => {
    await bucket.close();
    users.remove();
  });

  test("the service's user can run every command, and root none of them", async () => {
    const done = new Set<string>();
    const leaves = leavesOf(createProgram(createTestInvocation("/", {}).invocation));
    const names = leaves.map(({ path }) => path.replace("claviger ", ""));
    users.shell(NOBODY, "mkdir -m 700 home/data");
    interface Run {
      readonly input?: string;
      readonly dataDir?: string;
      readonly env?: Readonly<Record<string, string>>;
      /** A part of the sentence with which the command has to refuse. */
      readonly refusal?: string;
    }
    const run = async (line: string, { input, dataDir = "home/data", env: own, refusal }: Run = {}) => {
      const place = ["--json", "--data-dir", dataDir, "--env-file", "empty.env"];
      const args = [...line.split(" "), ...place];
      const name = names.find((each) => `${line} `.startsWith(`${each} `)) ?? "";
      const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org", ...own };
      const given = { env, ...(input !== undefined && { input }) };
      const ofRoot = await users.run(ROOT, args, given);
      if (FOR_ROOT.some((each) => line.startsWith(each)))
        expect({ line, ...ofRoot }).toMatchObject({ line, status: 0 });
      else {
        expect({ line, ...ofRoot }).toMatchObject({ line, status: 1, out: "" });
        // The shell of root opens the file of an import.
        const isImport = line === "keys import keys.jsonl";
        const words = isImport ? ["keys", "import", "-", ...place] : args;
        const typed = [builtExecutable, ...words].map((word) =>
          /^[\w./:@=+-]+$/.test(word) ? word : `'${word}'`,
        );
        if (isImport) typed.push("<", "keys.jsonl");
        if (dataDir === "home/data")
          expect(ofRoot.err).toEndWith(`run \`runuser -u nobody -- ${typed.join(" ")}\`\n`);
      }
      const ended = await users.run(NOBODY, args, given);
      done.add(name);
      if (refusal !== undefined) {
        expect({ line, ...ended }).toMatchObject({ line, status: 1, err: expect.stringContaining(refusal) });
        return undefined;
      }
      expect({ line, ...ended }).toMatchObject({ line, status: 0, err: "" });
      return JSON.parse(ended.out);
    };
    const key = { sha256: "0b".repeat(32), mode: "live", email: "x@example.org", tier: "free" };
    const imported = { ...key, expires_at: "never", monthly_limit: null, used: 0 };
    writeFileSync(join(users.folder, "keys.jsonl"), `${JSON.stringify(imported)}\n`);
    writeFileSync(join(users.folder, "weights"), "weights");

    await run("migrate");
    // The first start of the service makes the secret like this.
    users.shell(NOBODY, "umask 077; openssl rand -hex 32 > home/data/secret");
    await run("keys import keys.jsonl");
    const { id, api_key } = await run("keys issue --email ada@example.org --tier research");
    await run("keys list");
    await run(`keys show ${id}`);
    await run("keys find", { input: api_key });
    await run(`keys suspend ${id}`);
    await run(`keys resume ${id}`);
    await run(`keys renew ${id} --expires-at 2040-01-01T00:00:00Z`);
    await run(`keys tier ${id} commercial`);
    await run(`keys limit ${id} 100`);
    await run(`keys updates ${id} 2039-12-31 --shorten`);
    await run(`keys feature ${id} +custom_models --until 2039-06-30`);
    await run(`keys value ${id} channels=64`);
    await run(`keys usage ${id}`);
    await run(`keys why ${id}`);
    const exported = await run(`licenses export ${id} --days 30`);
    writeFileSync(join(users.folder, "customer.license"), exported.file);
    await run("licenses verify customer.license");
    await run("licenses outstanding");
    await run(`bundle make --key ${id} --days 30 --to home/customer.tar`);
    await run("bundle verify home/customer.tar");
    await run(`keys machines ${id} --max-machines 5`);
    await run(`keys offline ${id} 14`);
    await run(`keys external-id ${id} order-7`);
    const { license_id: license } = await run(`keys show ${id}`);
    await run(`licenses show ${license}`);
    await run(`licenses move ${license} --to augusta@example.org --new-account --yes`);
    await run(`licenses move ${license} --to ada@example.org --yes`);
    const { license: signed } = await run(`licenses export ${id} --days 14 --fingerprint workstation-7`);
    writeFileSync(join(users.folder, "november.report"), reportFromLicense(signed, new Date()));
    await run("usage import november.report --yes");
    const [machine] = await run("machines list");
    await run(`machines show ${machine.id}`);
    await run(`machines release ${machine.id}`, { refusal: "it is not active" });
    await run("machines release-all --unseen 0d --dry-run");
    await run(`machines free ${machine.id} --reason lost --yes`);
    await run("notices list");
    // Only a service makes notices.
    const notice = `ntc_${"0".repeat(32)}`;
    const refusal = `there is no notice ${notice}`;
    for (const words of [`show ${notice}`, `done ${notice}`, `remind ${notice} --on 2099-01-01`])
      await run(`notices ${words}`, { refusal: words.includes("2099") ? "at most 365 days ahead" : refusal });
    await run("notices mute --account ada@example.org");
    await run("notices muted");
    await run(`notices unmute --license ${license}`);
    await run("tiers list");
    await run("tiers value research channels=8 --yes");
    await run("licenses public-keys");
    await run("licenses rotate-signing-key");
    const successor = await run(`keys rotate ${id} --overlap 1h`);
    for (const each of [id, successor.id]) await run(`keys revoke ${each}`);
    const replacement = await run(`keys replace ${successor.id}`);
    await run(`keys revoke ${replacement.id}`);
    await run("usage export --month 2026-11");
    await run("usage daily --by tier");
    await run("activity --by endpoint");
    await run("accounts list");
    await run("accounts show ada@example.org");
    await run("accounts usage ada@example.org");
    await run("accounts update ada@example.org --name Ada");
    await run("accounts renew ada@example.org");
    const shape = "--n-features 8 --n-classes 2 --requires-license free --paradigm p300";
    await run(`models add --name m --version 1 --type SvcLDA ${shape} --file weights`);
    await run("models list");
    await run("models show m");
    await run("models verify");
    await run("models move --to s3", {
      env: {
        CLAVIGER_MODELS_S3: bucket.url,
        CLAVIGER_MODELS_S3_REGION: REGION,
        CLAVIGER_MODELS_S3_CREDENTIALS_FILE: join(users.folder, "bucket.credentials"),
      },
    });
    await run("models remove m");
    await run("models retire m 1");
    await run("models purge");
    await run("operators login olga --role admin");
    await run("operators list");
    await run("operators login ivan --role viewer");
    await run("operators role ivan editor");
    await run("operators remove ivan");
    await run("tokens issue --name shop --scope keys:read");
    await run("tokens list");
    await run("tokens renew shop");
    await run("tokens resume shop");
    await run("tokens revoke shop");
    // This account marks the data as a demo's.
    await run("keys issue --email research@demo.example --tier research");
    await run("demo remove");
    await run("installer set-token", { input: "a-token" });
    await run("config check");
    await run("doctor");
    await run("backup home/saved --with-secret --with-models");
    await run("restore home/saved", { dataDir: "home/restored" });
    await run("installer clear-token");
    await run("accounts erase ada@example.org");
    await run("audit");
    await run("backup --verify home/saved");

    expect(names.filter((name) => !done.has(name) && !OTHERS.includes(name))).toEqual([]);
    expect(users.shell(ROOT, "find home ! -uid 65534")).toBe("");
  });
});
