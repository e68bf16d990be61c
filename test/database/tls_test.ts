/** Which connections to an external server with TLS are encrypted, and which are refused. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, chownSync, copyFileSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { PeerCertificate } from "node:tls";
import { systemClock } from "../../src/base/clock.ts";
import { silentLog } from "../../src/base/log.ts";
import { tlsOf } from "../../src/database/_tls.ts";
import { parseDatabaseUrl } from "../../src/database/database_url.ts";
import { openDatabase } from "../../src/database/mod.ts";
import { createCommandLine } from "../cli/command_line.ts";
import { makeCertificate, type TestCertificate } from "../support/certificates.ts";
import { type OtherPostgres, unpackPackage } from "../support/postgres_programs.ts";
import { TEST_SECRET } from "../support/secrets.ts";
import { until } from "../support/until.ts";
import { cleanUp, makeDataFolder, makeFolder, query, start } from "./embedded_test_kit.ts";

/** A loopback address that no other server on this machine uses. */
const HOST = `127.77.${process.pid & 255}.${1 + ((process.pid >> 8) & 127)}`;

let folder: string;
let certFile: string;
let keyFile: string;
let server: Awaited<ReturnType<typeof start>>;
let right: TestCertificate;
let programs: OtherPostgres | undefined;

beforeAll(async () => {
  folder = makeFolder();
  certFile = join(folder, "server.crt");
  keyFile = join(folder, "server.key");
  right = makeCertificate(folder, "right", 30, `IP:${HOST}`);
  const dataDir = makeDataFolder();
  server = await start(dataDir);
  const { uid, gid } = statSync(join(dataDir, "postgres"));
  await server.stop(5_000);
  put(right, { uid, gid });
  // The PostgreSQL that is built for a release has no TLS.
  programs = await unpackPackage();
  server = await start(dataDir, {
    postgresBin: programs.bin,
    settings: { listen_addresses: HOST, ssl: "on", ssl_cert_file: certFile, ssl_key_file: keyFile },
  });
});
afterAll(async () => {
  await cleanUp();
  programs?.remove();
});

/** Writes the pair to the files that the server reads, with the server's user as their owner. */
function put(
  pair: TestCertificate,
  owner: { readonly uid: number; readonly gid: number } = statSync(keyFile),
): void {
  for (const [from, to] of [
    [pair.certFile, certFile],
    [pair.keyFile, keyFile],
  ] as const) {
    copyFileSync(from, to);
    chmodSync(to, 0o600);
    chownSync(to, owner.uid, owner.gid);
  }
}

async function show(pair: TestCertificate): Promise<void> {
  put(pair);
  await query(server.address, "select pg_reload_conf()");
  const shown = async () => {
    const run = Bun.spawnSync(["openssl", "s_client", "-starttls", "postgres", "-connect", `${HOST}:5432`], {
      stdin: Buffer.from(""),
    });
    const text = run.stdout.toString();
    const [pem = ""] = /-----BEGIN[\s\S]*?-----END CERTIFICATE-----/.exec(text) ?? [];
    return pem !== "" && pair.certificate.includes(pem);
  };
  await until(shown);
}

/** Returns whether a connection by that address is encrypted, or the code of its failure. */
async function connectBy(parameters: string): Promise<boolean | string> {
  const database = openDatabase(
    { url: `postgres://claviger@${HOST}:5432/postgres${parameters}` },
    { clock: systemClock, log: silentLog, maxConnections: 1, deadlineMs: 5_000 },
  );
  try {
    const [row] = await database.query<{ ssl: boolean }>(
      (sql) => sql`select ssl from pg_stat_ssl where pid = pg_backend_pid()`,
    );
    return row?.ssl ?? "no row";
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  } finally {
    await database.close();
  }
}

describe("sslmode", () => {
  test("does not encrypt by default", async () => {
    expect(await connectBy("")).toBe(false);
    expect(await connectBy("?sslmode=disable")).toBe(false);
  });

  test("encrypts with require and prefer, and accepts any server", async () => {
    for (const mode of ["allow", "prefer", "require"]) expect(await connectBy(`?sslmode=${mode}`)).toBe(true);
  });

  test("verify-full and verify-ca accept a server with a signed certificate for its host", async () => {
    const root = `sslrootcert=${right.certFile}`;
    expect(await connectBy(`?sslmode=verify-full&${root}`)).toBe(true);
    expect(await connectBy(`?${root}&sslmode=verify-ca`)).toBe(true);
    expect(await connectBy(`?sslmode=verify-full&${root}&options=-c%20jit%3Doff`)).toBe(true);
  });

  test("verify-full refuses a certificate that no trusted authority signed", async () => {
    const stranger = makeCertificate(folder, "stranger", 30, `IP:${HOST}`);
    expect(await connectBy("?sslmode=verify-full")).toMatch(/SELF_SIGNED/);
    expect(await connectBy("?sslrootcert=system")).toMatch(/SELF_SIGNED/);
    expect(await connectBy(`?sslmode=verify-full&sslrootcert=${stranger.certFile}`)).toMatch(/SIGNED|VERIFY/);
  });

  test("verify-full refuses a trusted certificate of another host, and one of localhost for an address", async () => {
    for (const names of ["DNS:db.example.org", "DNS:localhost", "IP:127.0.0.1", `DNS:${HOST}`]) {
      const other = makeCertificate(folder, `other-${names.replace(/\W/g, "-")}`, 30, names);
      await show(other);
      const root = `sslrootcert=${other.certFile}`;
      for (const mode of ["verify-full", "verify-ca"]) {
        expect(`${names}: ${await connectBy(`?sslmode=${mode}&${root}`)}`).toBe(
          `${names}: ERR_TLS_CERT_ALTNAME_INVALID`,
        );
      }
      expect(await connectBy("?sslmode=require")).toBe(true);
    }
    await show(right);
    expect(await connectBy(`?sslmode=verify-full&sslrootcert=${right.certFile}`)).toBe(true);
  });

  test("serve says what is wrong with the certificate, what to do, and that only a person can repair it", async () => {
    using line = createCommandLine();
    const serve = async (query: string) => {
      const url = `postgres://claviger@${HOST}:5432/postgres?sslmode=verify-full${query}`;
      const env = { DATABASE_URL: url, CLAVIGER_SECRET: TEST_SECRET };
      const { status, err } = await line.here(["serve", "--port", "0"], { env });
      expect(status).toBe(78);
      return err;
    };
    const at = `claviger: Cannot reach the database at ${HOST}:5432/postgres:`;
    expect(await serve("")).toBe(
      `${at} no trusted authority signed its certificate; name the authority's certificate with sslrootcert=FILE in DATABASE_URL\n`,
    );
    const other = makeCertificate(folder, "other-host", 30, "DNS:db.example.org");
    await show(other);
    expect(await serve(`&sslrootcert=${other.certFile}`)).toBe(
      `${at} its certificate is for another host; name the host of the certificate in DATABASE_URL, or give the server a certificate for this host\n`,
    );
    await show(right);
  });

  // For an address without a name Node passes `localhost`, and Bun passes the address.
  test("verify-full checks the host in the address, whatever name the runtime passes", () => {
    const url = parseDatabaseUrl("postgres://u@10.1.2.3,db.example.org:5433/c?sslmode=verify-full");
    const ssl = url && tlsOf(url).ssl;
    if (typeof ssl !== "object") throw new Error("not verified");
    const check = (name: string, subjectaltname: string) =>
      ssl.checkServerIdentity(name, { subject: {}, subjectaltname } as PeerCertificate) === undefined;
    expect(check("localhost", "DNS:localhost")).toBe(false);
    expect(check("localhost", "IP Address:10.1.2.3")).toBe(true);
    expect(check("10.1.2.3", "IP Address:10.1.2.3")).toBe(true);
    expect(check("db.example.org", "DNS:db.example.org")).toBe(true);
    expect(check("db.example.org", "IP Address:10.1.2.3")).toBe(false);
  });

  test("verify-full refuses a certificate that has expired", async () => {
    const over = makeCertificate(folder, "over", -2, `IP:${HOST}`);
    await show(over);
    expect(await connectBy(`?sslmode=verify-full&sslrootcert=${over.certFile}`)).toBe("CERT_HAS_EXPIRED");
    await show(right);
  });

  test("verify-full trusts the authorities that the machine's administrator trusts", async () => {
    const script = `
      import { openDatabase } from "${join(import.meta.dir, "../../src/database/mod.ts")}";
      import { systemClock } from "${join(import.meta.dir, "../../src/base/clock.ts")}";
      import { silentLog } from "${join(import.meta.dir, "../../src/base/log.ts")}";
      const database = openDatabase(
        { url: "postgres://claviger@${HOST}:5432/postgres?sslmode=verify-full" },
        { clock: systemClock, log: silentLog, maxConnections: 1, deadlineMs: 5_000 },
      );
      const [row] = await database.query((sql) => sql\`select ssl from pg_stat_ssl where pid = pg_backend_pid()\`);
      console.log(JSON.stringify(row));
      await database.close();`;
    const run = (env: Record<string, string>) =>
      Bun.spawnSync([process.execPath, "-e", script], { env, stderr: "ignore" }).stdout.toString().trim();
    expect(run({})).toBe("");
    expect(run({ NODE_EXTRA_CA_CERTS: right.certFile })).toBe('{"ssl":true}');
    expect(readFileSync(right.certFile, "utf8")).toContain("BEGIN CERTIFICATE");
  });
});
