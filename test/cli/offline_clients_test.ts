/** The clients of the page `offline` of the manual, run as an SDK author would run them, with pinned keys. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import type { JWK } from "jose";
import { findPage } from "../../src/cli/guide/pages.ts";
import { createTestClock } from "../support/clock.ts";
import { createCommandLine, createIssuer, type RunningService } from "./command_line.ts";

setDefaultTimeout(30_000);

const line = createCommandLine({ prepared: true });
const root = join(import.meta.dir, "../..");
let service: RunningService;

beforeAll(async () => {
  service = await line.serve([], { env: { CLAVIGER_STOP_GRACE: "0" } });
});
afterAll(async () => {
  await service.stop();
  line.remove();
});

function codeOf(language: string): string {
  const text = findPage("offline")?.text ?? "";
  return new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "ms").exec(text)?.[1] ?? "";
}

const hasCryptography =
  Bun.spawnSync(["python3", "-c", "import cryptography"], { stderr: "ignore" }).exitCode === 0;

const CLIENTS = {
  python: { file: "check.py", command: ["python3"], keys: "keys.json", skip: !hasCryptography },
  // In the checkout, so that it finds `jose`.
  ts: { file: "check.ts", command: [process.execPath, "run"], keys: "keys.json", skip: false },
  sh: { file: "check.sh", command: ["sh"], keys: "keys.pem", skip: false },
} as const;

async function pin(): Promise<void> {
  line.write("keys.json", (await line.here(["licenses", "public-keys"])).out);
  line.write("keys.pem", (await line.here(["licenses", "public-keys", "--pem"])).out);
}

function fileOf(name: string): string {
  return join(line.folder, name);
}

async function check(language: keyof typeof CLIENTS, license: string, audience = "svc") {
  const { file, command, keys } = CLIENTS[language];
  const script = line.write(
    file,
    codeOf(language).replace('from "jose"', `from "${root}/node_modules/jose"`),
  );
  const args = [...command, script, line.write("license", license), fileOf(keys), audience];
  const ended = Bun.spawnSync(args, { env: { PATH: process.env.PATH ?? "", TMPDIR: line.folder } });
  return { status: ended.exitCode, out: ended.stdout.toString(), err: ended.stderr.toString() };
}

describe.each(Object.keys(CLIENTS) as (keyof typeof CLIENTS)[])("the client in %s", (language) => {
  // Without the package `cryptography` the client in Python is skipped: Debian has it as python3-cryptography.
  test.skipIf(CLIENTS[language].skip)(
    "accepts a license with pinned keys, also after a rotation, and refuses a changed byte, another product and an expired license",
    async () => {
      const issue = createIssuer(line);
      const key = await issue();
      await pin();
      const body = JSON.stringify({ api_key: key.api_key });
      const fetched = await fetch(`${service.url}/v1/auth/license`, { method: "POST", body });
      const { license, expires_at } = (await fetched.json()) as { license: string; expires_at: string };
      const until = `research until ${expires_at.slice(0, 10)}\n`;
      expect(await check(language, license)).toEqual({ status: 0, out: until, err: "" });
      expect(await check(language, license, "other")).toMatchObject({ status: 1, out: "" });

      const [head = "", payload = "", signature = ""] = license.split(".");
      const changedClaims = Buffer.from(payload, "base64url").toString().replace("research", "Research");
      const keys = JSON.parse((await line.here(["licenses", "public-keys"])).out).keys as JWK[];
      const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
      const { kid } = JSON.parse(Buffer.from(head, "base64url").toString());
      const own = keys.find((key) => key.kid === kid);
      const other = keys.find((key) => key.kid !== kid);
      const symmetric = `${encode({ alg: "HS256", typ: "license+jwt", kid: own?.kid })}.${payload}`;
      const forgeries = [
        // The public key as the secret of another algorithm.
        [
          symmetric,
          createHmac("sha256", Buffer.from(own?.x ?? "", "base64url"))
            .update(symmetric)
            .digest("base64url"),
        ],
        [encode({ alg: "EdDSA", typ: "license+jwt", kid: other?.kid }), payload, signature],
        [encode({ alg: "EdDSA", typ: "license+jwt", kid: "unknown" }), payload, signature],
        [encode({ alg: "none", typ: "license+jwt", kid: own?.kid }), payload, signature],
        [head, Buffer.from(changedClaims).toString("base64url"), signature],
        [head, payload, (signature.startsWith("A") ? "B" : "A") + signature.slice(1)],
        [Buffer.from(JSON.stringify({ alg: "none", typ: "license+jwt" })).toString("base64url"), payload, ""],
      ];
      for (const forged of forgeries) {
        const { status, out, err } = await check(language, forged.join("."));
        expect({ status, out, isRefused: err.startsWith("refused: ") }).toEqual({
          status: 1,
          out: "",
          isRefused: true,
        });
      }

      const clock = createTestClock(new Date(Date.now() - 30 * 86_400_000).toISOString());
      const expired = await line.json(["licenses", "export", key.id, "--days", "29"], { clock });
      const refused = await check(language, expired.license);
      expect({ ...refused, err: refused.err.includes("expired") || refused.err.includes('"exp"') }).toEqual({
        status: 1,
        out: "",
        err: true,
      });
      if (language === "sh") {
        const file = await line.here(["licenses", "export", key.id, "--days", "3"]);
        expect((await check(language, file.out)).status).toBe(0);
      }

      await line.json(["licenses", "rotate-signing-key"]);
      const again = await fetch(`${service.url}/v1/auth/license`, { method: "POST", body });
      const next = (await again.json()) as { license: string };
      expect(await check(language, next.license)).toMatchObject({ status: 0, err: "" });
    },
  );
});
