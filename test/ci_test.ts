/** `.ci/run` on a checkout whose targets only tell who ran them, and with which umask. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isRoot } from "./support/is_root.ts";
import { until } from "./support/until.ts";

setDefaultTimeout(60_000);

const asRoot = isRoot("the user whom .ci/run makes");
/** What follows the name of a target tells its user, its umask and, with the text of a summary, its outcome. */
const TELL = 'echo "$@ $(ARGS) of $$(id -u) $$(umask)"; printf " 2 pass\\n 1 fail\\n"';

let folder = "";
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function checkout(recipe: string): string {
  folder = mkdtempSync(join(tmpdir(), "claviger ci-"));
  const tree = join(folder, "a clone");
  mkdirSync(join(tree, ".ci"), { recursive: true });
  cpSync(join(import.meta.dir, "../.ci/run"), join(tree, ".ci/run"));
  writeFileSync(join(tree, "Makefile"), `%:\n\t@${recipe}\n`);
  // Like a clone below /root.
  chmodSync(folder, 0o700);
  return tree;
}

function start(tree: string): { child: Bun.Subprocess<"ignore", "pipe", "pipe">; ended: Promise<string> } {
  const child = Bun.spawn([join(tree, ".ci/run")], {
    // As a make with arguments passes them on.
    env: { ...process.env, ARGS: "--of-another", MAKEFLAGS: " -- ARGS=--of-another" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  return { child, ended: new Response(child.stdout).text() };
}

/** Returns the ids of the users whom runs have made. */
function users(): number[] {
  return [...readFileSync("/etc/passwd", "utf8").matchAll(/^claviger-ci-\d+:[^:]*:(\d+):/gm)].map(([, id]) =>
    Number(id),
  );
}

function processesOf(uid: number | undefined): string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.filter((pid) => lstatSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === uid);
}

const MACHINE = process.arch === "arm64" ? "arm64" : "x64";
/** Each target with its ARGS. */
const STEPS = [
  `postgres ${MACHINE}`,
  "test-any-order ",
  "prove --short",
  "check ",
  "build ",
  "test-executable ",
  "test-console ",
  "test-node ",
];
const SMALL_DISK = "test/crash_test/short_proof.ts --test-name-pattern=small_disk";
/** Those that run no tests. */
const UNCOUNTED = ["postgres", "check", "build"];

describe(".ci/run", () => {
  test("runs every step as an ordinary user with umask 002, then as root what needs root, and counts all", async () => {
    const before = users();
    const { child, ended } = start(checkout(`case $@ in Makefile) ;; *) ${TELL};; esac`));
    const lines = (await ended).split("\n");
    expect(await child.exited).toBe(1);
    const told = lines.filter((line) => / of \d+ /.test(line));
    const [, uid = ""] = / of (\d+) /.exec(told[0] ?? "") ?? [];
    expect(asRoot ? uid !== "0" : uid === String(process.getuid?.())).toBe(true);
    const ofRoot = asRoot ? ["test-as-root  of 0 0022", `prove ${SMALL_DISK} of 0 0022`] : [];
    expect(told).toEqual([...STEPS.map((step) => `${step} of ${uid} 0002`), ...ofRoot]);
    expect(lines.some((line) => line.includes("run .ci/run as root"))).toBe(!asRoot);
    // Each counted step passes two tests and fails one.
    const counted = told.length - UNCOUNTED.length;
    expect(lines.at(-2)).toBe(`${2 * counted} passed, ${counted} failed`);
    expect(users()).toEqual(before);
  });

  test("counts one failure where PostgreSQL cannot be built, says why at the end, and runs everything else without it", async () => {
    const why = "Cannot fetch the source: nowhere";
    const recipe = `case $@ in Makefile) ;; postgres) echo "${why}"; exit 1;; *) echo "$@ BUILD_POSTGRES=$$BUILD_POSTGRES"; echo " 2 pass";; esac`;
    const { child, ended } = start(checkout(recipe));
    const lines = (await ended).split("\n");
    expect(await child.exited).toBe(1);
    const ran = lines.filter((line) => line.endsWith("BUILD_POSTGRES=no"));
    expect(ran.length).toBe(STEPS.length - 1 + (asRoot ? 2 : 0));
    expect(lines.at(-2)).toBe(`${2 * (ran.length - (UNCOUNTED.length - 1))} passed, 1 failed`);
    expect(lines.lastIndexOf(why)).toBeGreaterThan(lines.lastIndexOf(ran.at(-1) ?? ""));
  });

  test("repeats at the end what each failed test printed, with its file, and the end of a step that ran no test", async () => {
    const told = [
      "test/first_test.ts:",
      "(pass) one [1.00ms]",
      "error: why it failed",
      "(fail) two > three [2.00ms]",
      " 1 tests failed:",
      "(fail) two > three [2.00ms]",
      " 1 pass",
      " 1 fail",
    ];
    const tell = told.map((line) => `echo "${line}";`).join(" ");
    const recipe = `case $@ in Makefile) ;; check) echo "a rule"; exit 1;; test-node) ${tell} exit 1;; *) echo " 1 pass";; esac`;
    const { child, ended } = start(checkout(recipe));
    const [, repeated = ""] = (await ended).split("What failed:\n");
    expect(await child.exited).toBe(1);
    const lines = repeated.split("\n").filter((line) => line !== "" && !line.startsWith("make: ***"));
    expect(lines).toEqual([
      "== make check",
      "a rule",
      "== make test-node",
      "test/first_test.ts:",
      "error: why it failed",
      "(fail) two > three [2.00ms]",
      expect.stringMatching(/^\d+ passed, 2 failed$/),
    ]);
  });

  test.skipIf(!(asRoot && Bun.which("useradd")))(
    "ends the user's processes and removes the user, also when it is ended itself",
    async () => {
      const before = users();
      const tree = checkout("case $@ in test-any-order) setsid sleep 1000 > /dev/null & sleep 1000;; esac");
      const { child, ended } = start(tree);
      await until(() => users().length > before.length);
      const made = users().find((uid) => !before.includes(uid));
      // make, its shell, and two that sleep.
      await until(() => processesOf(made).length >= 4);
      child.kill("SIGTERM");
      const [, copy = ""] = /^Running as the user \S+ in (\/\S+)$/m.exec(await ended) ?? [];
      expect(await child.exited).toBe(1);
      expect(processesOf(made)).toEqual([]);
      expect(users()).toEqual(before);
      expect(copy).toEndWith("/tree");
      expect(existsSync(copy)).toBe(false);
    },
  );
});
