/** The login at an identity provider with the executable, as an operator sets it up. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readFindings } from "../cli/command_line.ts";
import { createProviderBrowser } from "../operators/identity/provider_browser.ts";
import { findFreePort } from "../support/find_free_port.ts";
import { CLIENT, startIdentityProvider, type TestProvider } from "../support/identity_provider.ts";
import { type Installed, install, isBuilt, TEST_LIMIT_MS } from "./installed.ts";

setDefaultTimeout(TEST_LIMIT_MS);

describe.skipIf(!isBuilt)("the executable with an identity provider", () => {
  let installed: Installed;
  let provider: TestProvider;
  let env: Record<string, string>;

  beforeAll(async () => {
    installed = install();
    const listen = `127.0.0.1:${await findFreePort()}`;
    provider = await startIdentityProvider(`http://${listen}`);
    const secretFile = join(installed.place.folder, "oidc-secret");
    writeFileSync(secretFile, CLIENT.secret, { mode: 0o600 });
    env = {
      CLAVIGER_ADMIN_LISTEN: listen,
      CLAVIGER_ADMIN_URL: `http://${listen}`,
      CLAVIGER_OIDC_ISSUER: provider.issuer,
      CLAVIGER_OIDC_CLIENT_ID: CLIENT.id,
      CLAVIGER_OIDC_CLIENT_SECRET_FILE: secretFile,
      CLAVIGER_OIDC_NAME: "Example Staff",
      CLAVIGER_OIDC_ROLES: "admin=licensing-admins,viewer=sales",
    };
  });
  afterAll(async () => {
    await provider.close();
    await installed.remove();
  });

  test("lets a person in and out of the groups, and a link by command while the provider is down", async () => {
    await installed.start({ env });
    const console = env.CLAVIGER_ADMIN_URL ?? "";
    const olga = { subject: "1", name: "olga@example.org" };
    provider.setPeople({ olga: { ...olga, groups: ["licensing-admins"] } });
    const browser = createProviderBrowser(console);
    expect((await browser.logIn("olga")).status).toBe(200);
    expect(await browser.open("/keys/issue")).toBe(200);
    const operators = await installed.json(["operators", "list"]);
    expect(operators).toMatchObject([{ name: "olga", role: "admin", issuer: provider.issuer }]);

    const { findings } = readFindings(await installed.run(["doctor", "--json"], env));
    expect(findings.find(({ name }) => name === "login")).toMatchObject({
      state: "ok",
      message: expect.stringContaining(`it must allow ${console}/console/callback`),
    });

    provider.setPeople({ olga: { ...olga, groups: [] } });
    expect((await createProviderBrowser(console).logIn("olga")).status).toBe(403);
    expect(await browser.open("/keys")).toBe(303);

    await provider.close();
    const asked = await createProviderBrowser(console).send(`${console}/console/enter/provider`);
    expect([asked.status, await asked.text()]).toEqual([
      503,
      expect.stringContaining("Example Staff does not answer"),
    ]);
    const { code } = await installed.json(["operators", "login", "root", "--role", "admin"], env);
    const headers = { origin: console };
    const entered = await browser.send(`${console}/console/enter`, {
      method: "POST",
      headers,
      body: new URLSearchParams({ code }),
    });
    expect(entered.status).toBe(303);
    expect(await browser.open("/keys")).toBe(200);
  });

  test("refuses to start without the file of the secret, and says so", async () => {
    await installed.service.stop();
    const started = installed.start({ env: { ...env, CLAVIGER_OIDC_CLIENT_SECRET_FILE: "/nowhere" } });
    expect(started).rejects.toThrow("cannot be asked: /nowhere: there is no such file");
    await started.catch(() => {});
  });
});
