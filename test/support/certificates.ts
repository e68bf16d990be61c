/** Makes certificates with `openssl`, by default for 127.0.0.1 and localhost. */
import { X509Certificate } from "node:crypto";
import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";

export interface TestCertificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly certificate: string;
  readonly privateKey: string;
  readonly fingerprint: string;
}

/** Makes a self-signed certificate in the folder. Negative `days` make an expired one. */
export function makeCertificate(
  folder: string,
  name: string,
  days = 30,
  names = "IP:127.0.0.1,DNS:localhost",
): TestCertificate {
  const certFile = join(folder, `${name}.crt`);
  const keyFile = join(folder, `${name}.key`);
  const day = 86_400_000;
  const form = (ms: number) => `${new Date(ms).toISOString().replace(/[-:T]/g, "").slice(0, 14)}Z`;
  const now = Date.now();
  const from = Math.min(now - day, now + days * day - day);
  openssl(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", keyFile]);
  const request = join(folder, `${name}.csr`);
  openssl(["req", "-new", "-key", keyFile, "-subj", `/CN=${name}`, "-out", request]);
  const extensions = join(folder, `${name}.ext`);
  Bun.spawnSync(["sh", "-c", `echo subjectAltName=${names} > ${extensions}`]);
  const database = join(folder, `${name}.db`);
  Bun.spawnSync(["sh", "-c", `: > ${database}; echo unique_subject=no > ${database}.attr`]);
  const config = join(folder, `${name}.cnf`);
  const text = [
    "[ca]",
    "default_ca=d",
    "[d]",
    `database=${database}`,
    `new_certs_dir=${folder}`,
    "rand_serial=yes",
    "default_md=sha256",
    "policy=p",
    "[p]",
    "commonName=supplied",
  ].join("\n");
  Bun.spawnSync(["sh", "-c", `cat > ${config}`], { stdin: Buffer.from(`${text}\n`) });
  openssl([
    "ca",
    "-batch",
    "-notext",
    "-selfsign",
    "-config",
    config,
    "-keyfile",
    keyFile,
    "-in",
    request,
    "-extfile",
    extensions,
    "-startdate",
    form(from),
    "-enddate",
    form(now + days * day),
    "-out",
    certFile,
  ]);
  chmodSync(keyFile, 0o600);
  const certificate = readFileSync(certFile, "utf8");
  return {
    certFile,
    keyFile,
    certificate,
    privateKey: readFileSync(keyFile, "utf8"),
    fingerprint: new X509Certificate(certificate).fingerprint256,
  };
}

function openssl(args: readonly string[]): void {
  const run = Bun.spawnSync(["openssl", ...args], { stdout: "ignore", stderr: "pipe" });
  if (run.exitCode !== 0) throw new Error(`openssl ${args[0]}: ${run.stderr.toString()}`);
}

/**
 * Returns the fingerprint that a server shows to a new connection, after one request, which must be
 * answered.
 */
export function shownFingerprint(port: number, path = "/"): Promise<{ fingerprint: string; status: number }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
      const { fingerprint256: fingerprint } = socket.getPeerCertificate();
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk;
      });
      socket.on("close", () => {
        const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? Number.NaN);
        if (status > 0) resolve({ fingerprint, status });
        else reject(new Error("closed without an answer"));
      });
      socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    });
    socket.on("error", reject);
  });
}
