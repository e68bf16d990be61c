/**
 * A command that root runs on another user's data folder works as that user. Its operator sees no
 * difference.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { makeCertificate } from "../support/certificates.ts";
import { until } from "../support/until.ts";
import { canActAsBoth, createRootStage, type RootStage, USER } from "./as_root.ts";

/** Runs a program at a terminal of its own, and types an answer when the program asks. */
const TERMINAL = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
shown = b""
asked = False
while True:
    try:
        shown += os.read(terminal, 4096)
    except OSError:
        break
    if not asked and shown.endswith(b"go on: "):
        asked = True
        os.write(terminal, sys.argv[1].encode() + b"\\n")
sys.stdout.buffer.write(shown)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`;

setDefaultTimeout(30_000);

describe.skipIf(!canActAsBoth)("a command that root runs on the data folder of another user", () => {
  let stage: RootStage;
  /** A folder for root's files, which no other user may read. */
  let vault: string;
  const SECRET = randomBytes(32).toString("hex");

  beforeAll(async () => {
    stage = createRootStage();
    vault = join(stage.folder, "vault");
    mkdirSync(vault, { mode: 0o700 });
    const made = await stage.asRoot(["migrate"]);
    if (made.status !== 0) throw new Error(made.err);
  });
  afterAll(() => stage.remove());

  function keep(name: string, text: string): string {
    writeFileSync(join(vault, name), text, { mode: 0o600 });
    return join(vault, name);
  }

  test("makes all files the user's, also in a new data folder", async () => {
    expect(existsSync(join(stage.dataDir, "postgres/PG_VERSION"))).toBe(true);
    stage.expectOwnedByUser();
  });

  test("prints, ends and reads as for any other user", async () => {
    const issued = await stage.asRoot(
      ["keys", "issue", "--email", "ada@example.org", "--tier", "free", "--json"],
      {
        env: { SUDO_USER: "olga" },
      },
    );
    expect(issued).toMatchObject({ status: 0, err: "" });
    const { id, api_key } = JSON.parse(issued.out);
    const found = await stage.asRoot(["keys", "find", "--json"], { input: `${api_key}\n` });
    expect(JSON.parse(found.out)).toMatchObject({ id });
    const [entry] = JSON.parse((await stage.asRoot(["audit", "--json"])).out);
    expect(entry).toMatchObject({ action: "key.issue", actor: "command:olga", key_id: id });
    expect(await stage.asRoot(["keys", "find"], { input: "none" })).toMatchObject({
      status: 1,
      out: "",
      err: expect.stringMatching(/^claviger: Cannot find key: [^\n]+\n$/),
    });
    expect(await stage.asRoot(["keys", "list", "--tier", "none"])).toMatchObject({ status: 2, out: "" });
  });

  test("asks at root's terminal, and reads the answer from there", async () => {
    const issued = await stage.asRoot([
      "keys",
      "issue",
      "--email",
      "t@example.org",
      "--tier",
      "free",
      "--json",
    ]);
    const { id } = JSON.parse(issued.out);
    const revoke = (answer: string) =>
      stage.asRoot(["keys", "revoke", id], {
        program: ["python3", "-c", TERMINAL, answer, ...stage.program],
      });
    const refused = await revoke("no");
    expect(refused).toMatchObject({
      status: 1,
      out: expect.stringContaining(
        "\u001b[31mclaviger:\u001b[39m Nothing was changed: the answer was not yes",
      ),
    });
    expect(await revoke("yes")).toMatchObject({ status: 0, out: expect.stringContaining(`Revoked ${id}`) });
    // Without a terminal it does not ask, and leaves the input to the next reader.
    expect(await stage.asRoot(["keys", "revoke", id], { input: "no" })).toMatchObject({
      status: 1,
      err: "claviger: Cannot revoke key: it is revoked already\n",
    });
    const program = ["bash", "-c", '"$@"; cat', "bash", ...stage.program];
    expect(await stage.asRoot(["keys", "revoke", id], { input: "left", program })).toMatchObject({
      out: "left",
    });
  });

  test("reads files that only root may read", async () => {
    const line = { sha256: "0b".repeat(32), mode: "live", email: "x@example.org", tier: "free" };
    const keys = keep(
      "keys.jsonl",
      `${JSON.stringify({ ...line, expires_at: "never", monthly_limit: null, used: 0 })}\n`,
    );
    expect(await stage.asRoot(["keys", "import", keys])).toMatchObject({
      status: 0,
      out: "Imported 1 key\n",
    });

    const input = JSON.stringify({ ...line, sha256: "0c".repeat(32) });
    expect(await stage.asRoot(["keys", "import", "-"], { input })).toMatchObject({
      status: 0,
      out: "Imported 1 key\n",
    });

    const weights = keep("weights", "weights");
    const model = [
      "--name",
      "m",
      "--version",
      "1",
      "--type",
      "SvcLDA",
      "--paradigm",
      "p300",
      "--file",
      weights,
    ];
    const shape = ["--n-features", "8", "--n-classes", "2", "--requires-license", "free"];
    const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org" };
    expect(await stage.asRoot(["models", "add", ...model, ...shape], { env })).toMatchObject({ status: 0 });
    expect(await stage.asRoot(["models", "verify"])).toMatchObject({ status: 0, err: "" });

    const { certFile, keyFile } = makeCertificate(vault, "tls", 60);
    const examined = await stage.asRoot(["doctor", "--json"], {
      env: { CLAVIGER_TLS_CERT: certFile, CLAVIGER_TLS_KEY: keyFile },
    });
    const { findings } = JSON.parse(examined.out) as { findings: { name: string; state: string }[] };
    expect(findings.find(({ name }) => name === "tls")).toMatchObject({ state: "ok" });
    expect(await stage.asRoot(["keys", "import", join(vault, "none")])).toMatchObject({
      status: 1,
      err: `claviger: Cannot import keys: ${vault}/none: there is no such file\n`,
    });
    stage.expectOwnedByUser();
  });

  test("gives a backup to root, complete or not at all, and restores it", async () => {
    const env = { CLAVIGER_SECRET_FILE: keep("secret", SECRET) };
    const path = join(vault, "saved");
    const saved = await stage.asRoot(["backup", path, "--with-secret", "--with-models"], { env });
    expect(saved).toMatchObject({
      status: 0,
      err: "",
      out: expect.stringMatching(/^Saved \d+ rows .* to .*saved /),
    });
    expect(statSync(path)).toMatchObject({ uid: 0, gid: 0, mode: 0o100600 });
    expect(await stage.asRoot(["backup", path], { env })).toMatchObject({
      status: 1,
      out: "",
      err: expect.stringContaining("there is a file of that name"),
    });
    const before = readFileSync(path);
    expect(await stage.asRoot(["backup", path, "--force"])).toMatchObject({ status: 0 });
    expect(readFileSync(path).equals(before)).toBe(false);
    const printed = await stage.asRoot(["backup", "-"]);
    writeFileSync(path, printed.out, "latin1");
    expect(await stage.asRoot(["backup", path, "--verify"])).toMatchObject({ status: 0 });

    writeFileSync(path, before);
    const restored = await stage.asRoot(["restore", path], { dataDir: join(stage.home, "restored") });
    expect(restored).toMatchObject({ status: 0, err: "" });
    expect(statSync(join(stage.home, "restored/secret"))).toMatchObject({ ...USER, mode: 0o100600 });
    stage.expectOwnedByUser();

    const failed = await stage.asRoot(["backup", join(vault, "failed"), "--with-secret"], {
      env,
      dataDir: join(stage.home, "nothing"),
    });
    expect(failed.status).toBe(1);
    expect(readdirSync(vault).filter((name) => name.startsWith("failed"))).toEqual([]);
  });

  test("reports that its output was not written", async () => {
    const onto = (target: string) => ["sh", "-c", `exec "$0" "$@" > ${target}`, ...stage.program];
    const issue = ["keys", "issue", "--email", "grace@example.org", "--tier", "free"];
    for (const args of [issue, ["backup", "-"]]) {
      expect(await stage.asRoot(args, { program: onto("/dev/full") })).toMatchObject({
        status: 1,
        err: expect.stringMatching(/claviger: Cannot [^\n]+ disk is full; [^\n]+\n$/),
      });
    }
  });

  test("has only the user's rights, and shows its settings to no other user", async () => {
    const lock = stage.holdLock();
    const program = ["setpriv", "--groups", "4,27", ...stage.program];
    const env = { CLAVIGER_SECRET: SECRET, DATABASE_URL: "" };
    const beganMs = performance.now();
    let isSeen = false;
    const terminateWhen = () => isSeen && performance.now() - beganMs > 4_000;
    const running = stage.asRoot(["keys", "list"], { program, env, terminateWhen });
    try {
      const pid = await until(() =>
        readdirSync("/proc")
          .filter((name) => /^\d+$/.test(name))
          .find((name) => isAtWork(name, stage.dataDir)),
      );
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      expect(status).toMatch(/^Uid:\t65534\t65534\t65534\t65534$/m);
      expect(status).toMatch(/^Gid:\t65534\t65534\t65534\t65534$/m);
      expect(status).toMatch(/^Groups:\s*$/m);
      expect(status).toMatch(/^CapPrm:\t0+$/m);
      for (const name of ["cmdline", "environ"]) {
        expect(readFileSync(`/proc/${pid}/${name}`, "latin1")).not.toContain(SECRET);
      }
      const open = readdirSync(`/proc/${pid}/fd`).map((fd) => readLink(`/proc/${pid}/fd/${fd}`));
      expect(open.filter((path) => /^\/dev\/(tty|pts)/.test(path))).toEqual([]);
    } finally {
      isSeen = true;
      const ended = await running;
      lock.end();
      expect(ended).toMatchObject({ status: 1, err: "claviger: Stopped by SIGTERM: nothing was changed\n" });
    }
  });

  test("is refused if it is `serve`, with the command that root should run", async () => {
    const refused = await stage.asRoot(["serve", "--port", "0"]);
    expect(refused).toMatchObject({ status: 1, out: "" });
    expect(refused.err).toContain(`Cannot serve as root: ${stage.dataDir} belongs to user nobody`);
    expect(refused.err).toMatch(
      /`sudo -u nobody bun \S+main\.ts serve --port 0 --data-dir \S+data --env-file \S+`/,
    );
  });

  test("names the remedy if the user may not run the program", async () => {
    const folder = join(stage.folder, "program");
    mkdirSync(folder, { mode: 0o755 });
    const [bun = "", main = ""] = stage.program;
    const closed = join(folder, "bun");
    writeFileSync(closed, readFileSync(bun), { mode: 0o700 });
    const refused = await stage.asRoot(["keys", "list"], { program: [closed, main] });
    expect(refused).toMatchObject({ status: 1, out: "" });
    expect(refused.err).toMatch(/^claviger: Cannot run as user nobody, [^\n]*\/usr\/local\/bin\n$/);
  });

  test("refuses the internal option on the command line", async () => {
    for (const args of [["--as-owner", "keys", "list"], ["--as-owner"]])
      expect(await stage.asRoot(args)).toMatchObject({ status: 2, out: "" });
  });
});

function isAtWork(pid: string, dataDir: string): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
    return words.includes("--as-owner") && words.includes(dataDir) && existsSync(`/proc/${pid}/fd/0`);
  } catch {
    return false;
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
