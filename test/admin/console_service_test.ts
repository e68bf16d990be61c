/** The console as a part of the service: a key issued there is valid for clients. Also runs on Node. */
import { expect, test } from "bun:test";
import { useTestService } from "../support/use.ts";
import { createConsoleClient } from "./console_client.ts";

const service = useTestService({ config: { adminListen: { host: "127.0.0.1", port: 0 } } });

test("A key that an operator issues in the console is valid at the service", async () => {
  const client = createConsoleClient({ ...service, url: service.service.admin?.url ?? "" });
  const { text: enter } = await client.send("/enter");
  for (const [asset] of enter.matchAll(/\/assets\/[\w.-]+/g)) {
    expect([asset, (await client.send(asset)).status]).toEqual([asset, 200]);
  }
  const { cookie } = await client.logIn("editor");
  const form = { email: "ada@example.org", tier: "free", mode: "live", never: "yes" };
  const { text: issued } = await client.send("/keys/issue", { cookie, form });
  const [apiKey] = /svc_live_[0-9a-f]{48}/.exec(issued) ?? [];
  const body = JSON.stringify({ api_key: apiKey });
  const answer = await fetch(`${service.url}/v1/auth/validate`, { method: "POST", body });
  expect(await answer.json()).toMatchObject({ valid: true, email: "ada@example.org" });
  expect((await client.send("/keys", { cookie })).text).toContain("ada@example.org");
  expect((await client.send("/logout", { cookie, form: {} })).status).toBe(303);
  expect(await client.isLoggedIn(cookie)).toBe(false);
});
