/** The findings of `doctor` for a user who may not read some settings or files of the installation. */
import { beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../../src/base/clock.ts";
import type { Unseen } from "../../../src/installation/config/mod.ts";
import { examine } from "../../../src/installation/doctor/finding.ts";
import type { ServingAt } from "../../../src/installation/mod.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { isRoot } from "../../support/is_root.ts";
import { useTestDatabase } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { examineAll } from "./doctor_kit.ts";

const asRoot = isRoot("doctor on files of other users");

const SECRET = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const UNSEEN = { why: "this user may not read the service's settings", remedy: "run as root" };
const folder = useFolder();
const target = useTestDatabase();
beforeAll(async () => {
  const now = systemClock.now();
  await target.database.query(
    (sql) => sql`insert into secret_canary (sealed, created_at) values (${"sealed"}, ${now})`,
  );
});

const examineFolder = (env: Record<string, string>, unseen?: Unseen, serving?: ServingAt) =>
  examineAll(target, { env: { CLAVIGER_DATA_DIR: folder, ...env }, unseen, serving });

const APP = {
  CLAVIGER_GITHUB_APP_ID: "1",
  CLAVIGER_GITHUB_INSTALLATION_ID: "2",
  CLAVIGER_GITHUB_REPOSITORY: "core",
};
const CLOSED_TO_US = ["tls", "github app", "secret", "installer token", "public address"];

describe("claviger doctor and settings that this user may not read", () => {
  test("says that they cannot be seen, not that they are missing", async () => {
    const unseen = UNSEEN;
    for (const env of [{}, APP]) {
      const of = await examineFolder(env, unseen);
      for (const name of CLOSED_TO_US) {
        expect(of(name)).toEqual({
          name,
          state: "skip",
          message: `cannot be seen: ${unseen.why}`,
          remedy: "run as root",
        });
      }
    }
  });

  test("does not conclude from one credential that other settings are missing", async () => {
    const key = join(folder, "claviger-github-key");
    writeFileSync(key, "");
    const env = { CREDENTIALS_DIRECTORY: folder };
    const of = await examineFolder(env, UNSEEN);
    expect(of("github app")?.state).toBe("skip");
    expect(examineFolder(env)).rejects.toThrow("Some settings of the GitHub App are given");
    rmSync(key);
  });

  test("still checks the settings that can be seen", async () => {
    const env = { CLAVIGER_PUBLIC_URL: "https://licenses.example.org", CLAVIGER_SECRET: SECRET };
    const of = await examineFolder(env, UNSEEN);
    expect(of("public address")?.state).toBe("ok");
    expect(of("secret")).toMatchObject({
      state: "fail",
      message: "another secret sealed this database",
    });
  });

  test("says what is missing if this user can see everything", async () => {
    const of = await examineFolder(APP);
    expect(
      ["tls", "github app", "secret", "installer token", "public address"].map((name) => of(name)?.state),
    ).toEqual(["ok", "fail", "fail", "fail", "ok"]);
  });

  test.skipIf(!asRoot)(
    "skips files that this user may not read, and asks the running service for its certificate",
    async () => {
      const [cert, key] = [join(folder, "cert"), join(folder, "key")];
      for (const path of [cert, key]) writeFileSync(path, "", { mode: 0o600 });
      const files = { CLAVIGER_TLS_CERT: cert, CLAVIGER_TLS_KEY: key, CLAVIGER_GITHUB_PRIVATE_KEY_FILE: key };
      const all = async (serving?: ServingAt) => {
        const of = await examineFolder({ ...APP, ...files }, undefined, serving);
        return ["tls", "github app"].map((name) => of(name)?.state);
      };
      const { certificate, privateKey } = makeCertificate(folder, "served", 3);
      const tls = { cert: certificate, key: privateKey };
      const service = Bun.serve({ port: 0, hostname: "127.0.0.1", tls, fetch: () => new Response("") });
      const serving = { host: "127.0.0.1", port: service.port ?? 0, tls: { certFile: cert, keyFile: key } };
      expect(await all()).toEqual(["fail", "fail"]);
      chmodSync(folder, 0o755);
      chmodSync(cert, 0o644);
      process.seteuid?.(65_534);
      try {
        expect(await all()).toEqual(["skip", "skip"]);
        const of = await examineFolder({ ...APP, ...files });
        expect(of("tls")?.message).toStartWith(`this user may not read ${key}, and no running service`);
        expect(await all(serving)).toEqual(["warn", "skip"]);
      } finally {
        process.seteuid?.(0);
        await service.stop(true);
      }
    },
  );

  test("skips a check that throws EACCES, and fails a check that throws another error", async () => {
    const failing = (code: string) => ({
      name: code,
      examine: () => {
        throw Object.assign(new Error(`${code}: no`), { code });
      },
    });
    expect(await examine({}, [failing("EACCES"), failing("EIO")])).toEqual([
      {
        name: "EACCES",
        state: "skip",
        message: "cannot be seen by this user: EACCES: no",
        remedy: "let the service's user read it",
      },
      {
        name: "EIO",
        state: "fail",
        message: "cannot be checked: EIO: no",
        remedy: "remove this cause, then run `claviger doctor` again",
      },
    ]);
  });
});
