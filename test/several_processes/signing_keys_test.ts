/** Two processes sign with the keys of one database, while a command rotates and retires them. */
import { beforeAll, expect, test } from "bun:test";
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from "jose";
import { issue } from "../support/issue.ts";
import { until } from "../support/until.ts";
import { useForAll } from "../support/use.ts";
import { createInstallation, type Replica } from "./installation.ts";

const installation = useForAll(createInstallation);
let here: Replica;
let elsewhere: Replica;
let apiKey: string;

beforeAll(async () => {
  // Both start at the same time, on an empty database: together they make two signing keys.
  [here, elsewhere] = await Promise.all([installation.serve(), installation.serve()]);
  ({ apiKey } = await issue(installation.database, { now: new Date() }));
});

async function fetchLicense(from: Replica): Promise<{ license: string; kid: string }> {
  return await until(async () => {
    const { status, body } = await from.post("/v1/auth/license", { api_key: apiKey });
    // 503: on a busy machine the pulse may be late, and then a service does not trust its cache.
    if (status === 503) return;
    expect({ status, code: body.code }).toEqual({ status: 200, code: undefined });
    return body;
  });
}

async function publishedBy(replica: Replica): Promise<JSONWebKeySet> {
  return (await replica.get("/.well-known/jwks.json")).body;
}

const verify = (license: string, keys: JSONWebKeySet) =>
  jwtVerify(license, createLocalJWKSet(keys), { algorithms: ["EdDSA"], audience: "svc" });

async function change(...options: string[]): Promise<void> {
  const { status, err } = await installation.run(["licenses", "rotate-signing-key", ...options]);
  if (status !== 0) throw new Error(err);
}

test("a rotation holds in every process at once and after a restart, and a retired key signs in none", async () => {
  const pinned = await publishedBy(here);
  expect(await publishedBy(elsewhere)).toEqual(pinned);
  const [first, successor] = pinned.keys.map(({ kid = "" }) => kid);
  const before = await fetchLicense(elsewhere);
  expect(before.kid).toBe(first ?? "");

  await change();
  await here.kill("SIGKILL");
  const restarted = await installation.serve();
  for (const replica of [elsewhere, restarted]) {
    const { license, kid } = await fetchLicense(replica);
    expect(kid).toBe(successor ?? "");
    // With the keys that were pinned before the rotation, and with those that either process publishes now.
    await verify(license, pinned);
    await verify(license, await publishedBy(elsewhere));
    await verify(license, await publishedBy(restarted));
    await verify(before.license, await publishedBy(replica));
  }

  await change("--retire", successor ?? "", "--now");
  for (const replica of [elsewhere, restarted]) {
    const { license, kid } = await fetchLicense(replica);
    expect([first, successor]).not.toContain(kid);
    // A process reads the published keys once a second.
    const published = await until(async () => {
      const keys = await publishedBy(replica);
      return keys.keys.every((key) => key.kid !== successor) && keys;
    });
    await verify(license, published);
  }
});
