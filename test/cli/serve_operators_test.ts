/** The listener for operators as the person sees it who runs the service: `serve`, its note, and `doctor`. */
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCertificate } from "../support/certificates.ts";
import { readFindings } from "./command_line.ts";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine({ prepared: true });

const examined = async (env: Readonly<Record<string, string>> = {}) =>
  readFindings(await line.here(["doctor", "--json"], { env })).of("operators");

const LISTEN = ["--admin-listen", "127.0.0.1:0"];
const note = join(line.dataDir, "serving");

describe("claviger serve --admin-listen", () => {
  test("says at which address it serves operators, and leaves the address in its note", async () => {
    const env = { CLAVIGER_ADMIN_URL: "https://admin.example.org" };
    await using service = await line.serve(LISTEN, { env });
    const { admin } = JSON.parse(readFileSync(note, "utf8"));
    expect(admin).toEqual({ host: "127.0.0.1", port: expect.any(Number) });
    const served = `http://127.0.0.1:${admin.port}, as https://admin.example.org`;
    expect(service.out).toContain(`\nIt serves operators at ${served}\n`);
    const answer = await fetch(`http://127.0.0.1:${admin.port}`, { redirect: "manual" });
    expect(answer.status).toBe(421);
    expect(await examined(env)).toMatchObject({ state: "ok", message: `served at ${served}` });
  });

  test.each([
    ["http", {}],
    ["http", { CLAVIGER_ADMIN_URL: "http://localhost:9000" }],
    ["https", { CLAVIGER_ADMIN_URL: "https://localhost:9000" }],
  ])("speaks %s on loopback beside a certificate with %o", async (scheme, env) => {
    const { certFile, keyFile } = makeCertificate(line.folder, scheme);
    const tls = { CLAVIGER_TLS_CERT: certFile, CLAVIGER_TLS_KEY: keyFile, ...env };
    await using service = await line.serve(LISTEN, { env: tls });
    expect(service.url).toStartWith("https://");
    const own = `${scheme}://127.0.0.1:${JSON.parse(readFileSync(note, "utf8")).admin.port}`;
    const { CLAVIGER_ADMIN_URL: url = own } = env as Readonly<Record<string, string>>;
    const served = `${own}${url === own ? "" : `, as ${url}`}`;
    expect(service.out).toContain(`\nIt serves operators at ${served}\n`);
    expect(await examined(tls)).toMatchObject({ state: "ok", message: `served at ${served}` });
    const login = ["operators", "login", "ada", ...((await isKnown("ada")) ? [] : ["--role", "admin"])];
    const { link, code } = await line.json(login, { env: tls });
    expect(link).toBe(`${url}/console/enter#${code}`);
    const entered = await fetch(`${own}/console/enter`, {
      method: "POST",
      redirect: "manual",
      headers: { Origin: url, Host: new URL(url).host },
      body: new URLSearchParams({ code }),
      tls: { rejectUnauthorized: false },
    });
    expect(entered.status).toBe(303);
    expect(entered.headers.get("set-cookie")?.includes("; Secure")).toBe(scheme === "https");
    expect(entered.headers.get("strict-transport-security")).toBeNull();
  });
});

async function isKnown(operator: string): Promise<boolean> {
  const known: readonly { readonly name: string }[] = await line.json(["operators", "list"]);
  return known.some(({ name }) => name === operator);
}

describe("claviger doctor", () => {
  test("finds that operators are served, and that another program or no program answers", async () => {
    await using _ = await line.serve(LISTEN);
    await using other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("hello") });
    const written = readFileSync(note, "utf8");
    const { admin, ...at } = JSON.parse(written);
    const served = { state: "ok", message: `served at http://127.0.0.1:${admin.port}` };
    expect(await examined()).toMatchObject(served);
    // The note of the running service counts, and not the settings, which apply from its next start.
    expect(await examined({ CLAVIGER_ADMIN_LISTEN: "127.0.0.1:1" })).toMatchObject(served);

    writeFileSync(note, JSON.stringify({ ...at, admin: { host: "127.0.0.1", port: other.port } }));
    expect(await examined()).toMatchObject({
      state: "fail",
      message: `another program answers at http://127.0.0.1:${other.port}, not Claviger (200)`,
    });
    await other.stop(true);
    expect(await examined()).toMatchObject({
      state: "fail",
      message: expect.stringContaining("no service answers"),
    });
    writeFileSync(note, JSON.stringify(at));
    expect(await examined({ CLAVIGER_ADMIN_LISTEN: "127.0.0.1:1" })).toMatchObject({
      state: "warn",
      message: "not served: CLAVIGER_ADMIN_LISTEN was set after the service had started",
    });
    writeFileSync(note, written);
  });

  test("examines the settings while no service runs", async () => {
    expect(await examined()).toMatchObject({ state: "ok", message: expect.stringContaining("not served") });
    expect(await examined({ CLAVIGER_ADMIN_LISTEN: "[::1]:8081" })).toMatchObject({
      state: "ok",
      message: "to be served at http://[::1]:8081 while the service runs",
    });
    expect(await examined({ CLAVIGER_ADMIN_LISTEN: "0.0.0.0:8081" })).toMatchObject({
      state: "fail",
      message: expect.stringContaining("needs CLAVIGER_ADMIN_URL with https"),
    });
  });
});
