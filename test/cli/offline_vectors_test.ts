/** The clients of the page `offline` are modules, and check licenses as the test vectors say. */
import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import vectors from "../../src/cli/guide/offline_vectors.json" with { type: "json" };
import { checkLicense, parseJwks } from "../../src/licensing/signed_licenses/mod.ts";
import { createCommandLine } from "./command_line.ts";

const WHY = {
  no_license: "the file holds no license",
  not_pinned: "none of the pinned keys has signed the license: update this program",
  not_genuine: "the license is not genuine",
  other_product: "the license is for another product",
  other_key: "the license is for another key",
  other_machine: "the license is for another machine",
  clock_behind: "the clock is behind: correct it, or go online",
  expired: "the license has expired: go online",
} as const;

const PYTHON = `
import json, sys
from check import Refused, check, read_keys
pinned = read_keys("keys.json")
def why(case):
    terms = {name: case[name] for name in ("audience", "key_id", "fingerprint", "now", "seen")}
    try:
        return None if check(case["license"], pinned, **terms)["license_type"] == "research" else "other claims"
    except Refused as refused:
        return str(refused)
print(json.dumps([why(case) for case in json.load(sys.stdin)]))
`;

const TYPESCRIPT = `
import { readFileSync } from "node:fs";
import { check, readKeys } from "./check.ts";
const pinned = readKeys("keys.json");
const results: (string | null)[] = [];
for (const { license, audience, key_id, fingerprint, now, seen } of JSON.parse(readFileSync(0, "utf8"))) {
  const terms = { audience, keyId: key_id, fingerprint: fingerprint ?? undefined, now, seen };
  const checking = check(license, pinned, terms);
  results.push(await checking.then(
    ({ license_type }) => (license_type === "research" ? null : "other claims"),
    (error: Error) => error.message,
  ));
}
console.log(JSON.stringify(results));
`;

// The interpreter itself, since `python3` may be a script that first searches for one.
const python = Bun.spawnSync(["python3", "-c", "import cryptography, sys; print(sys.executable)"], {
  stderr: "ignore",
});
const hasCryptography = python.exitCode === 0;
if (!hasCryptography) console.warn("Skipped the client in Python: python3 has no package cryptography");

describe.each([
  {
    language: "python",
    file: "check.py",
    command: [python.stdout.toString().trim(), "-B"],
    program: PYTHON,
    skip: !hasCryptography,
  },
  { language: "typescript", file: "check.ts", command: [process.execPath], program: TYPESCRIPT, skip: false },
])("the client in $language", ({ language, file, command, program, skip }) => {
  test.skipIf(skip)("is a module whose `check` decides as the vectors say", async () => {
    using line = createCommandLine();
    const { out } = await line.run(["guide", "offline", "--client", language]);
    line.write(file, out);
    line.write("keys.json", JSON.stringify(vectors.keys));
    symlinkSync(join(import.meta.dir, "../../node_modules"), join(line.folder, "node_modules"));
    const own = line.write(file.replace("check", "program"), program);
    const child = Bun.spawn([...command, own], {
      ...{ cwd: line.folder, stdin: "pipe", stdout: "pipe", stderr: "pipe", timeout: 60_000 },
    });
    child.stdin.write(JSON.stringify(vectors.cases));
    child.stdin.end();
    const [printed, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    expect({ status: await child.exited, err }).toEqual({ status: 0, err: "" });
    const results = JSON.parse(printed).map((why: string | null, index: number) => ({
      name: vectors.cases[index]?.name,
      why,
    }));
    expect(results).toEqual(
      vectors.cases.map(({ name, why }) => ({
        name,
        why: why === null ? null : WHY[why as keyof typeof WHY],
      })),
    );
  });
});

test("the service itself finds the signatures of the vectors good or bad as they say", () => {
  const trusted = parseJwks(JSON.stringify(vectors.keys)) ?? [];
  for (const { name, license, now, why } of vectors.cases) {
    const checked = checkLicense(license, { trusted, audience: "svc", now: new Date(now * 1_000) });
    const isBad = ["no_license", "not_pinned", "not_genuine"].includes(why ?? "");
    expect({ name, ok: checked.ok }).toEqual({ name, ok: !isBad });
  }
});

test("`claviger guide offline --vectors` prints them as they are in the checkout", async () => {
  using line = createCommandLine();
  expect(JSON.parse((await line.run(["guide", "offline", "--vectors"])).out)).toEqual(vectors);
  const { status, err } = await line.run(["guide", "keys", "--vectors"]);
  expect({ status, err }).toEqual({
    status: 2,
    err: expect.stringContaining("an option of `claviger guide offline` and `claviger guide sdk`"),
  });
});
