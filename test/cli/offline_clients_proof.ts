/** The clients that check licenses, run as an SDK author would run them, with pinned keys. */
import { beforeAll, describe, expect, test } from "bun:test";
import { createHmac, sign } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JWK } from "jose";
import { generateKeyPair } from "../../src/licensing/signed_licenses/jws.ts";
import { toJwk, toPem } from "../../src/licensing/signed_licenses/mod.ts";
import { createTestClock } from "../support/clock.ts";
import { shortest } from "../support/shortest.ts";
import { createIssuer, type Issued } from "./command_line.ts";
import { useServing } from "./use_command_line.ts";

const { line, service } = useServing([], { env: { CLAVIGER_STOP_GRACE: "0" } });
const issue = createIssuer(line);
const MACHINE = 'host "7" \\ $(id)';

// The interpreter itself, since `python3` may be a script that first searches for one.
const python = Bun.spawnSync(["python3", "-c", "import cryptography, sys; print(sys.executable)"], {
  stderr: "ignore",
});
const hasCryptography = python.exitCode === 0;
if (!hasCryptography) console.warn("Skipped the client in Python: python3 has no package cryptography");

const CLIENTS = {
  python: {
    command: [python.stdout.toString().trim(), "-B"],
    file: "claviger_client.py",
    form: "json",
    skip: !hasCryptography,
  },
  typescript: { command: [process.execPath, "run"], file: "claviger_client.ts", form: "json", skip: false },
  shell: { command: ["sh"], file: "check.sh", form: "pem", skip: false },
} as const;

const GENUINE = "refused: the license is not genuine\n";
const BEHIND = "refused: the clock is behind: correct it, go online, or open a newer license\n";
const NO_LICENSE = "refused: the file holds no license\n";
const NOT_PINNED = "refused: none of the pinned keys has signed the license: update this program\n";
const OTHER_MACHINE = "refused: the license is for another machine\n";

const OF_RESEARCH = ["batch_inference", "streaming", "training", "calibration", "model_export"];

/** The arguments of a client. The defaults are for a license without a fingerprint. */
interface Terms {
  readonly audience?: string;
  readonly machine?: string;
  readonly id?: string;
  /** The content of the file with the latest time that was seen. */
  readonly seen?: string;
  /** The file with the pinned keys. */
  readonly keys?: string;
}

async function publicKeys(form: "json" | "pem"): Promise<string> {
  return (await line.here(["licenses", "public-keys", form === "pem" ? "--pem" : "--json"])).out;
}

async function fetchLicense(key: Issued, fields: object = {}): Promise<string> {
  const { body } = await service.post("/v1/auth/license", { api_key: key.api_key, ...fields });
  if (body.license === undefined) throw new Error(JSON.stringify(body));
  return body.license;
}

function encode(value: object | string): string {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
}

function decode(part: string): string {
  return Buffer.from(part, "base64url").toString();
}

describe.each(Object.keys(CLIENTS) as (keyof typeof CLIENTS)[])("the client in %s", (language) => {
  const { command, file: scriptFile, form, skip } = CLIENTS[language];
  const subcommand = language === "shell" ? [] : ["check"];
  let script: string;
  let keysFile: string;
  let key: Issued;
  let license: string;
  let files = 0;

  /** Runs the client as a new user would: with a license in a file of its own. The service goes on meanwhile. */
  async function check(text: string, more: Terms = {}) {
    const { audience = "svc", machine, id = key.id, seen, keys = keysFile } = more;
    const file = line.write(`license-${language}-${files++}`, text);
    if (seen !== undefined) line.write(`license-${language}-${files - 1}.seen`, seen);
    const args = [file, keys, audience, id, ...(machine === undefined ? [] : [machine])];
    return { ...(await run(args)), seenFile: `${file}.seen` };
  }

  async function run(args: readonly string[]) {
    const env = { PATH: process.env.PATH ?? "", TMPDIR: line.folder };
    const ended = Bun.spawn([...command, script, ...subcommand, ...args], { env, stderr: "pipe" });
    const [out, err] = await Promise.all([ended.stdout.text(), ended.stderr.text()]);
    return { status: await ended.exited, out, err };
  }

  async function expectRefused(text: string, err: string, more?: Terms): Promise<void> {
    expect({ text, ...(await check(text, more)) }).toMatchObject({ text, status: 1, out: "", err });
  }

  beforeAll(async () => {
    const { out } = await line.run(["guide", "offline", "--client", language]);
    script = line.write(scriptFile, out);
    key = await issue();
    await pinKeys();
  });

  /** Pins the keys that sign now, and fetches a license that one of them signs. */
  async function pinKeys(): Promise<void> {
    keysFile = line.write(`keys-${language}`, await publicKeys(form));
    license = await fetchLicense(key);
  }

  // Debian has the package for Python as python3-cryptography.
  describe.skipIf(skip)("with pinned keys", () => {
    test("refuses every change, and never runs a command that a license contains", async () => {
      const [head = "", payload = "", signature = ""] = license.split(".");
      const { keys } = JSON.parse(await publicKeys("json")) as { keys: JWK[] };
      const { kid } = JSON.parse(decode(head)) as { kid: string };
      const own = keys.find((each) => each.kid === kid);
      const other = keys.find((each) => each.kid !== kid);
      const header = { alg: "EdDSA", typ: "license+jwt", kid };
      const symmetric = `${encode({ ...header, alg: "HS256" })}.${payload}`;
      const hmac = createHmac("sha256", Buffer.from(own?.x ?? "", "base64url"));
      const change = (part: string, at: number) =>
        part.slice(0, at) + (part[at] === "A" ? "B" : "A") + part.slice(at + 1);
      const planted = join(line.folder, `planted-${language}`);
      // A decoder that ignores the four bits after the last byte takes these two texts for the same.
      const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
      const sameBytes = signature.slice(0, -1) + alphabet[alphabet.indexOf(signature.at(-1) ?? "") + 1];
      expect(Buffer.from(sameBytes, "base64url")).toEqual(Buffer.from(signature, "base64url"));

      const forgeries: [forged: string, err: string][] = [
        [`${head}.${payload}.${sameBytes}`, GENUINE],
        [`${head}.${payload}.${change(signature, 0)}`, GENUINE],
        [`${head}.${change(payload, 99)}.${signature}`, GENUINE],
        [`${head}.${encode(decode(payload).replace("research", "Research"))}.${signature}`, GENUINE],
        [`${change(head, 5)}.${payload}.${signature}`, GENUINE],
        // The public key as the secret of another algorithm.
        [`${symmetric}.${hmac.update(symmetric).digest("base64url")}`, GENUINE],
        [`${encode({ ...header, alg: "none" })}.${payload}.${signature}`, GENUINE],
        [`${encode({ ...header, typ: "jwt" })}.${payload}.${signature}`, GENUINE],
        [`${encode({ ...header, kid: other?.kid })}.${payload}.${signature}`, GENUINE],
        [`${encode({ ...header, kid: "unknown" })}.${payload}.${signature}`, NOT_PINNED],
        [`${encode([header])}.${payload}.${signature}`, GENUINE],
        [`${encode("[".repeat(9_000))}.${payload}.${signature}`, GENUINE],
        [`${encode({ ...header, alg: "none" })}.${payload}.`, NO_LICENSE],
        ["", NO_LICENSE],
        ["\u0000\u00ff.\u0001.\u0002 é", NO_LICENSE],
        ["x".repeat(200_000), NO_LICENSE],
      ];
      const commands = [`/p;1e touch ${planted} #`, `/w ${planted}\n#`, `$(touch ${planted})`, ".*"];
      for (const [forged, err] of forgeries) {
        // The clients have different sentences for a text that is not base64url.
        if (err === NO_LICENSE)
          expect(await check(forged)).toMatchObject({ status: 1, out: "", err: refused });
        else await expectRefused(forged, err);
      }
      for (const text of commands) {
        const forged = `${encode({ ...header, kid: text })}.${payload}.${signature}`;
        expect(await check(forged)).toMatchObject({ status: 1, out: "", err: refused });
        expect({ text, ran: existsSync(planted) }).toEqual({ text, ran: false });
      }
    });

    test("refuses an over-long file within seconds", async () => {
      const [head, payload] = license.split(".");
      const measure = async () => {
        const beganMs = performance.now();
        const { status, err } = await check(`${head}.${payload}.${"x".repeat(200_000)}`);
        expect({ status, err }).toEqual({ status: 1, err: refused });
        return performance.now() - beganMs;
      };
      expect(await shortest(3_000, measure)).toBeLessThan(3_000);
    });

    test("refuses a text that a pinned key has signed, if the text is no license", async () => {
      const pair = generateKeyPair();
      const { kid } = pair;
      const { alg: _, ...jwk } = toJwk(pair.publicKey);
      const jwks = JSON.stringify({ keys: [jwk] });
      const pem = `# ${kid} (signing)\n${toPem(pair.publicKey)}`;
      const keys = line.write(`own-keys-${language}`, form === "pem" ? pem : jwks);
      const payload = license.split(".")[1] ?? "";
      const signed = (header: object) => {
        const text = `${encode(header)}.${payload}`;
        return `${text}.${sign(null, Buffer.from(text), pair.privateKey).toString("base64url")}`;
      };
      // RFC 9864 renames the algorithm.
      for (const alg of ["EdDSA", "Ed25519"])
        expect(await check(signed({ alg, typ: "license+jwt", kid }), { keys })).toMatchObject({ status: 0 });
      for (const header of [
        { alg: "EdDSA", typ: "at+jwt", kid },
        { alg: "Ed448", typ: "license+jwt", kid },
      ])
        await expectRefused(signed(header), GENUINE, { keys });
    });

    test("accepts only a license for its product, key and machine", async () => {
      const has = OF_RESEARCH.map((name) => `feature ${name}\n`).join("");
      const out = `research until ${day(license)}\n${has}`;
      expect(await check(license)).toMatchObject({ status: 0, out, err: "" });
      await expectRefused(license, "refused: the license is for another product\n", { audience: "other" });
      await expectRefused(license, "refused: the license is for another key\n", { id: (await issue()).id });
      await expectRefused(license, OTHER_MACHINE, { machine: MACHINE });
      const bound = await fetchLicense(key, {
        fingerprint: MACHINE,
        nonce: '"fingerprint":"host-8","exp":9',
      });
      expect(await check(bound, { machine: MACHINE })).toMatchObject({ status: 0, err: "" });
      await expectRefused(bound, OTHER_MACHINE);
      await expectRefused(bound, OTHER_MACHINE, { machine: "host-8" });
      await expectRefused(bound, OTHER_MACHINE, { machine: `${MACHINE} ` });
    });

    test("prints the features that hold now, those that end before the license, too, and the values", async () => {
      const { id } = await issue();
      const at = (minutes: number) => ({
        clock: createTestClock(new Date(Date.now() + minutes * 60_000).toISOString()),
      });
      const until = (minutes: number) => `until ${new Date(Date.now() + minutes * 60_000).toISOString()}`;
      const features = `ended ${until(-60)}, ending ${until(60)}, no streaming`;
      await line.json(["keys", "feature", id, features], at(-120));
      await line.json(["keys", "value", id, 'channels=64, region=eu, text="} \\"a\\", \\"exp\\":9"']);
      const { license: own } = await line.json(["licenses", "export", id, "--days", "1"], at(-90));
      expect(JSON.parse(decode(own.split(".")[1] ?? ""))).toMatchObject({
        feature_ends: { ended: expect.any(String), ending: expect.any(String) },
      });
      const { out, err } = await check(own, { id });
      expect({ err, lines: out.split("\n").slice(1) }).toEqual({
        err: "",
        lines: [
          ...OF_RESEARCH.filter((name) => name !== "streaming").map((name) => `feature ${name}`),
          "feature ending",
          ...["value channels 64", 'value region "eu"', String.raw`value text "} \"a\", \"exp\":9"`, ""],
        ],
      });
    });

    test("accepts an exported file, also with the line ends of Windows, but nothing from its unsigned lines", async () => {
      const args = ["licenses", "export", key.id, "--days", "3", "--fingerprint", MACHINE];
      const { out: file } = await line.here(args);
      expect(await check(file, { machine: MACHINE })).toMatchObject({ status: 0, err: "" });
      expect(await check(file.replaceAll("\n", "\r\n"), { machine: MACHINE })).toMatchObject({
        status: 0,
        err: "",
      });
      await expectRefused(file.replace(MACHINE, "host-8"), OTHER_MACHINE, { machine: "host-8" });
      await expectRefused(file.replace("\n\n", "\n"), NO_LICENSE, { machine: MACHINE });
    });

    test("refuses an expired license, and a clock that is more than five minutes behind", async () => {
      const minutes = (n: number) => new Date(Date.now() + n * 60_000).toISOString();
      const seen = (n: number) => String(Math.floor(Date.now() / 1_000) + n * 60);
      const exportAt = async (n: number, days: number) => {
        const clock = createTestClock(minutes(n));
        return (await line.json(["licenses", "export", key.id, "--days", `${days}`], { clock })).license;
      };
      // The license ended a minute ago. The tolerance of five minutes does not apply to the end.
      await expectRefused(
        await exportAt(-1_441, 1),
        "refused: the license has expired: go online, or ask the vendor for the next license\n",
      );
      expect(await check(await exportAt(-1_439, 1))).toMatchObject({ status: 0 });
      expect(await check(await exportAt(4, 1))).toMatchObject({ status: 0 });
      await expectRefused(await exportAt(6, 1), BEHIND);

      expect(await check(license, { seen: seen(4) })).toMatchObject({ status: 0 });
      await expectRefused(license, BEHIND, { seen: seen(6) });
      const { seenFile } = await check(license);
      expect(Math.abs(Number(readFileSync(seenFile, "utf8")) - Date.now() / 1_000)).toBeLessThan(60);
      const kept = seen(3);
      expect(readFileSync((await check(license, { seen: kept })).seenFile, "utf8")).toBe(kept);
      expect(await check(license, { seen: "9".repeat(19) })).toMatchObject({ status: 1, err: refused });
      for (const damaged of ["", "x", "$(id)"])
        expect(await check(license, { seen: damaged })).toMatchObject({ status: 1, err: noTime });
    });

    test("keeps the time in a file that no other run writes, and leaves only `LICENSE.seen`", async () => {
      const folder = join(line.folder, `alone-${language}`);
      const file = join(folder, "license");
      // Earlier, all runs wrote a new file of this name. A run that still does so fails here, because a folder has the
      // name.
      mkdirSync(`${file}.seen.new`, { recursive: true });
      writeFileSync(file, license);
      expect(await run([file, keysFile, "svc", key.id])).toMatchObject({ status: 0, err: "" });
      expect(readdirSync(folder).toSorted()).toEqual(["license", "license.seen", "license.seen.new"]);
    });

    test("accepts licenses after one rotation, and says after a second rotation that it needs new keys", async () => {
      await line.json(["licenses", "rotate-signing-key"]);
      expect(await check(await fetchLicense(key))).toMatchObject({ status: 0, err: "" });
      await line.json(["licenses", "rotate-signing-key"]);
      await expectRefused(await fetchLicense(key), NOT_PINNED);
      // The other tests check new licenses, too.
      await pinKeys();
    });

    test("says which file it cannot read, and prints its usage if arguments are missing", async () => {
      const missing = join(line.folder, "missing");
      const given = line.write(`given-${language}`, license);
      for (const args of [
        [missing, keysFile],
        [given, missing],
      ]) {
        expect(await run([...args, "svc", key.id])).toEqual({
          ...{ status: 1, out: "" },
          err: expect.stringMatching(/^refused: .*missing.*\n$/),
        });
      }
      expect((await run([given, keysFile])).err).toContain(`Usage: ${scriptFile}`);
    });
  });
});

test("The client in shell says that it needs OpenSSL 3, instead of refusing a license for another reason", async () => {
  const script = line.write("check.sh", (await line.run(["guide", "offline", "--client", "shell"])).out);
  const folder = join(line.folder, "libressl");
  mkdirSync(folder);
  writeFileSync(join(folder, "openssl"), "#!/bin/sh\necho LibreSSL 3.3.6\n", { mode: 0o755 });
  const env = { PATH: `${folder}:${process.env.PATH}`, TMPDIR: line.folder };
  const ended = Bun.spawn(["sh", script, "license", "keys", "svc", "key_1"], { env, stderr: "pipe" });
  expect(await ended.stderr.text()).toBe("refused: this program needs OpenSSL 3\n");
  expect(await ended.exited).toBe(1);
});

test("Only the page `offline` has clients, in three languages", async () => {
  for (const [args, why] of [
    [["keys", "--client", "shell"], "an option of `claviger guide offline`"],
    [["--client", "shell"], "an option of `claviger guide offline`"],
    [["offline", "--client", "ruby"], "It must be one of python, typescript, shell"],
    [["offline", "--client", "shell", "--man"], "cannot be used with option '--man'"],
  ] as const) {
    const { status, out, err } = await line.run(["guide", ...args]);
    expect({ args, status, out }).toEqual({ args, status: 2, out: "" });
    expect(err).toContain(why);
  }
});

const refused = expect.stringMatching(/^refused: [^\n]+\n$/);
const noTime = expect.stringMatching(
  /^refused: \S+\.seen holds no time: correct the clock, and delete the file\n$/,
);

function day(license: string): string {
  const { exp } = JSON.parse(decode(license.split(".")[1] ?? "")) as { exp: number };
  return new Date(exp * 1_000).toISOString().slice(0, 10);
}
