/** The login at an identity provider as a part of the service. Also runs on Node. */
import { expect, test } from "bun:test";
import { findFreePort } from "../../support/find_free_port.ts";
import { settingsFor, startIdentityProvider } from "../../support/identity_provider.ts";
import { startTestService } from "../../support/service.ts";
import { useForAll } from "../../support/use.ts";
import { createProviderBrowser } from "./provider_browser.ts";

const service = useForAll(async () => {
  const port = await findFreePort();
  const adminUrl = `http://127.0.0.1:${port}`;
  const provider = await startIdentityProvider(adminUrl);
  const adminListen = { host: "127.0.0.1", port };
  const config = { adminListen, adminUrl, provider: settingsFor(adminUrl, provider.issuer) };
  const started = await startTestService({ config });
  return {
    ...started,
    adminUrl,
    provider,
    async close() {
      await started.close();
      await provider.close();
    },
  };
});

test("A person of the provider logs in, and a provider that is gone costs only that way", async () => {
  service.provider.setPeople({ olga: { subject: "1", name: "olga@example.org", groups: ["support"] } });
  const browser = createProviderBrowser(service.adminUrl);
  expect((await browser.logIn("olga")).status).toBe(200);
  expect(await browser.open("/keys/issue")).toBe(200);
  await service.provider.close();
  const answer = await browser.send(`${service.adminUrl}/console/enter/provider`);
  expect([answer.status, await answer.text()]).toEqual([
    503,
    expect.stringContaining("Example Staff does not answer: nothing listens there"),
  ]);
  expect(await browser.open("/keys")).toBe(200);
});
