import { expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { CHECKOUT } from "../../src/build/parts.ts";
import { writeSums } from "../../src/build/sign.ts";
import { useFolder } from "../support/use_folder.ts";

const folder = useFolder();

const program = `claviger-${packageJson.version}-linux-x64`;
const sbom = `claviger-${packageJson.version}.cdx.json`;

/** The commands that the page `verify` tells customers to type. */
const page = readFileSync(join(CHECKOUT, "src/cli/guide/verify.md"), "utf8");
const commands = /```\n(ssh-keygen [^`]+)```/.exec(page)?.[1]?.trim().split("\n") ?? [];

function sh(command: string, cwd = folder) {
  const { exitCode, stdout, stderr } = Bun.spawnSync(["sh", "-c", command], { cwd });
  return { exitCode, output: stdout.toString() + stderr.toString() };
}

function digestOf(path: string): string {
  return new Bun.CryptoHasher("sha256").update(readFileSync(path)).digest("hex");
}

/** Makes the folder of a release with a program and an SBOM that names it, and signs it with a new key. */
function makeRelease(name: string, { signed = true } = {}): string {
  const release = join(folder, name);
  const key = join(folder, `${name}-key`);
  mkdirSync(release);
  writeFileSync(join(release, program), `the program of ${name}`);
  writeFileSync(join(release, sbom), JSON.stringify({ content: digestOf(join(release, program)) }));
  expect(sh(`ssh-keygen -q -t ed25519 -N '' -C olga@example.org -f ${key}`).exitCode).toBe(0);
  const line = writeSums(release, { files: [program, sbom], key: signed ? key : undefined });
  if (line !== undefined) writeFileSync(join(folder, "allowed_signers"), `${line}\n`);
  return release;
}

// In CI a missing tool is a fault.
const canSign = Bun.which("ssh-keygen") !== null || process.env.CI !== undefined;

test("writeSums() without a key says in the folder that the release is not signed", () => {
  const release = join(folder, "unsigned");
  mkdirSync(release);
  writeFileSync(join(release, program), "x");
  expect(writeSums(release, { files: [program], key: undefined })).toBeUndefined();
  expect(readFileSync(join(release, "NOT-SIGNED.txt"), "utf8")).toContain("not signed");
  expect(existsSync(join(release, "SHA256SUMS.sig"))).toBe(false);
  expect(sh("sha256sum -c SHA256SUMS", release)).toEqual({ exitCode: 0, output: `${program}: OK\n` });
});

test.skipIf(!canSign)("the commands of the page verify accept a release that the named key signed", () => {
  const release = makeRelease("good");
  expect(commands).toHaveLength(3);
  const [signature, sums, contents] = commands.map((command) => sh(command, release));
  expect(signature).toEqual({
    exitCode: 0,
    output: expect.stringContaining('Good "claviger-release" signature for claviger with ED25519 key'),
  });
  expect(sums).toEqual({ exitCode: 0, output: `${program}: OK\n${sbom}: OK\n` });
  expect(contents?.output).toContain(digestOf(join(release, program)));
  expect(existsSync(join(release, "NOT-SIGNED.txt"))).toBe(false);
});

test.skipIf(!canSign).each([
  ["another program", 1, (release: string) => writeFileSync(join(release, program), "evil")],
  ["another SBOM", 1, (release: string) => writeFileSync(join(release, sbom), "{}")],
  [
    "another program with sums that fit",
    0,
    (release: string) => {
      writeFileSync(join(release, program), "evil");
      writeSums(release, { files: [program, sbom], key: undefined });
    },
  ],
  [
    "the whole release of somebody else",
    0,
    (release: string) => {
      const trusted = readFileSync(join(folder, "allowed_signers"));
      cpSync(makeRelease(`other-${Date.now()}`), release, { recursive: true });
      writeFileSync(join(folder, "allowed_signers"), trusted);
    },
  ],
] as const)("the commands of the page verify refuse %s", (what, at, change) => {
  const release = makeRelease(what.replaceAll(" ", "-"));
  change(release);
  expect(sh(commands[at] ?? "", release).exitCode).not.toBe(0);
});
