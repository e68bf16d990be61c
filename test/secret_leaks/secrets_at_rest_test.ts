/** Promise 8 for the database and the log: no key, token or secret is in a table or a log line. */
import { expect, test } from "bun:test";
import { generateApiKey, hashApiKey } from "../../src/licensing/keys/mod.ts";
import { listSigningKeys, openSigningKey } from "../../src/licensing/signed_licenses/mod.ts";
import { dumpText } from "../support/dump.ts";
import { INSTALLER_TOKEN, setToken } from "../support/installer.ts";
import { BRAND } from "../support/issue.ts";
import { setPlaces } from "../support/machines.ts";
import { openSecrets, TEST_SECRET } from "../support/secrets.ts";
import { useTestService } from "../support/use.ts";

const service = useTestService();

test("No table and no log line contains a key, a token or a secret after requests of every kind", async () => {
  await setToken(service);
  const keys = await Promise.all([service.issue(), service.issue({ mode: "test" }), service.issue()]);
  for (const { licenseUuid } of keys) await setPlaces(service.database, licenseUuid, { maxMachines: 2 });
  const [used, unused, lost] = keys.map(({ apiKey }) => apiKey);
  const unknown = generateApiKey(BRAND, "live").apiKey;
  for (const apiKey of [used, unused, unknown, `${used}0`, used?.toUpperCase()]) {
    const header = { "x-api-key": apiKey ?? "" };
    await service.post("/v1/auth/validate", { api_key: apiKey });
    await service.post("/v1/auth/refresh", { api_key: apiKey });
    await service.post("/v1/auth/license", { api_key: apiKey, nonce: apiKey, fingerprint: apiKey });
    await service.get(`/v1/models/list?api_key=${apiKey}`);
    await service.get("/v1/installer/repo-token", header);
    await service.get(`/v1/installer/repo-token?api_key=${apiKey}`);
    await service.get(`/${apiKey}?api_key=${apiKey}`);
    const leak = `the key ${used} with ${INSTALLER_TOKEN.length} characters`;
    await service.post("/v1/analytics/log", { api_key: apiKey, event_type: "inference" });
    for (const action of ["activate", "heartbeat", "release"])
      await service.post(`/v1/machines/${action}`, {
        api_key: apiKey,
        fingerprint: apiKey,
        name: leak,
        platform: apiKey,
      });
    await service.post("/v1/auth/revoke", { api_key: apiKey === used ? lost : apiKey, reason: leak });
  }
  const logs = service.logLines.join("");
  const dump = await dumpText(service.database);
  expect(dump).toContain("key.revoke");
  expect(dump).toContain("machine.activate");
  for (const apiKey of [...keys.map((key) => key.apiKey), unknown]) {
    for (const text of [dump, logs]) {
      expect(text.toLowerCase()).not.toContain(apiKey.slice(9));
      expect(text).not.toContain(Buffer.from(apiKey).toString("base64").slice(0, 40));
    }
    expect(logs).not.toContain(hashApiKey(apiKey));
  }
  for (const secret of [INSTALLER_TOKEN, TEST_SECRET, ...(await privateKeys())]) {
    expect(dump + logs).not.toContain(secret);
    expect(dump).not.toContain(Buffer.from(secret).toString("hex"));
  }
});

/** Returns each private key that signs licenses, as the lines of its PEM and as the bytes of its seed in base64url. */
async function privateKeys(): Promise<string[]> {
  const secrets = openSecrets();
  const keys = (await listSigningKeys(service.database)).map((key) => openSigningKey(secrets, key) ?? fail());
  expect(keys).toHaveLength(2);
  return keys.flatMap((key) => [
    key.export({ format: "pem", type: "pkcs8" }).toString().split("\n")[1] ?? fail(),
    key.export({ format: "jwk" }).d ?? fail(),
  ]);
}

function fail(): never {
  throw new Error("A key that signs licenses cannot be opened");
}
