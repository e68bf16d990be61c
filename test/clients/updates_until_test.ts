/** A license whose updates have ended keeps the versions of models from before, in the list, by download and when signed. */
import { beforeAll, describe, expect, test } from "bun:test";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { changeLicense, createLicenseChanges, type LicenseChange } from "../../src/licensing/mod.ts";
import { addHostedModel, linkTo, testBytes } from "../support/hosted.ts";
import { ACTOR, orThrow } from "../support/issue.ts";
import { useHostingService } from "../support/use.ts";

const service = useHostingService({
  config: { offlineDays: { free: 0, research: 7, commercial: 0, enterprise: 0 } },
});
/** The last second of the updates, and the times at which the versions were registered. */
const UNTIL = new Date("2026-11-10T23:59:59Z");
const REGISTERED = {
  "1.0": "2026-11-01T00:00:00Z",
  "1.1": "2026-11-10T23:59:59.999Z",
  "2.0": "2026-11-11T00:00:00Z",
};
const DAY = "2026-11-10";
const TIMESTAMP = "2026-11-10T23:59:59Z";

beforeAll(async () => {
  for (const [index, [version, at]] of Object.entries(REGISTERED).entries()) {
    await addHostedModel(service, { name: "growing", version }, testBytes(1_000 + index));
    await register("growing", version, at);
  }
  await addHostedModel(service, { name: "later", version: "1.0" }, testBytes(2_000));
  await register("later", "1.0", "2026-11-11T00:00:00Z");
});

const register = (name: string, version: string, at: string) =>
  service.database.query(
    (sql) => sql`
      update model_versions set created_at = ${at}::timestamptz
       where version = ${version} and model_id = (select id from models where name = ${name})`,
  );

async function setUpdates({ licenseUuid }: IssuedKey, updatesUntil: Date | null): Promise<void> {
  const change: LicenseChange = { updatesUntil };
  const changes = createLicenseChanges(service.database);
  const by = { actor: ACTOR, now: service.clock.now(), shorten: true };
  orThrow(await changeLicense(changes, { licenseUuid }, { change, ...by }));
  await service.service.directory.beat();
}

async function listed({ apiKey }: IssuedKey): Promise<string[]> {
  const { body } = await service.get("/v1/models/list", { "x-api-key": apiKey });
  return body.models.map(({ name, version }: { name: string; version: string }) => `${name} ${version}`);
}

const download = ({ apiKey }: IssuedKey, name: string, version: string) =>
  fetch(`${service.url}/v1/models/download/${name}/${version}`, { headers: { "x-api-key": apiKey } });

describe("A license with updates until a day", () => {
  test("lists the newest version that was registered by then, and no model that came later", async () => {
    const key = await service.issue();
    expect(await listed(key)).toEqual(["growing 2.0", "later 1.0"]);
    await setUpdates(key, UNTIL);
    expect(await listed(key)).toEqual(["growing 1.1"]);
    await setUpdates(key, new Date(UNTIL.getTime() - 1_000));
    expect(await listed(key)).toEqual(["growing 1.0"]);
    await setUpdates(key, new Date("2026-10-31T23:59:59Z"));
    expect(await listed(key)).toEqual([]);
    await setUpdates(key, null);
    expect(await listed(key)).toEqual(["growing 2.0", "later 1.0"]);
  });

  test("lists the same version as without an end, if an older one got its file later", async () => {
    const key = await service.issue();
    const list = (version: string) =>
      service.database.query(
        (sql) => sql`update models set listed_version = ${version}::text where name = 'growing'`,
      );
    await list("1.0");
    await setUpdates(key, new Date("2030-01-31T23:59:59Z"));
    expect(await listed(key)).toEqual(["growing 1.0", "later 1.0"]);
    await list("2.0");
    expect(await listed(key)).toEqual(["growing 2.0", "later 1.0"]);
  });

  test("is noticed by every process, also if somebody sets it by hand", async () => {
    const key = await service.issue();
    // Afterwards the issue is no change any more.
    await service.service.directory.beat();
    expect(await listed(key)).toHaveLength(2);
    await service.database.query(
      (sql) => sql`
        update licenses set updates_until = ${UNTIL}::timestamptz where id = ${key.licenseUuid}::uuid`,
    );
    await service.service.directory.beat();
    expect(await listed(key)).toEqual(["growing 1.1"]);
  });

  test("loads earlier versions for ever, and refuses later ones with the day, also by a link from before", async () => {
    const key = await service.issue();
    const link = await linkTo(service, key.apiKey, "growing");
    expect((await fetch(link)).status).toBe(200);
    await setUpdates(key, UNTIL);
    for (const version of ["1.0", "1.1"]) expect((await download(key, "growing", version)).status).toBe(200);
    const refused = await download(key, "growing", "2.0");
    expect([refused.status, await refused.json()]).toEqual([
      403,
      {
        error: `The license has updates until ${DAY}, and this version was registered later; earlier versions stay available`,
        code: "LICENSE_REQUIRED",
      },
    ]);
    expect((await fetch(link)).status).toBe(403);
  });

  test("does not list a retired version, nor a model that was taken off the list", async () => {
    const key = await service.issue();
    await setUpdates(key, UNTIL);
    const set = (isRetired: boolean) =>
      service.database.query(
        (sql) => sql`
          update model_versions set retired_at = case when ${isRetired}::boolean then now() end where version = '1.1'`,
      );
    await set(true);
    expect(await listed(key)).toEqual(["growing 1.0"]);
    await set(false);
    const list = (version: string | null) =>
      service.database.query(
        (sql) => sql`update models set listed_version = ${version}::text where name = 'growing'`,
      );
    await list(null);
    expect(await listed(key)).toEqual([]);
    await list("2.0");
    expect(await listed(key)).toEqual(["growing 1.1"]);
  });

  test("says it in validate, refresh and the signed license, which are as before without it", async () => {
    const key = await service.issue();
    const ask = async () => {
      const body = { api_key: key.apiKey };
      const [validate, refresh, license] = [
        await service.post("/v1/auth/validate", body),
        await service.post("/v1/auth/refresh", body),
        await service.post("/v1/auth/license", body),
      ];
      const [, claims = ""] = license.body.license.split(".");
      return [validate.body, refresh.body, JSON.parse(Buffer.from(claims, "base64url").toString())];
    };
    for (const answer of await ask()) expect(answer).not.toHaveProperty("updates_until");
    await setUpdates(key, UNTIL);
    for (const answer of await ask()) expect(answer).toMatchObject({ updates_until: TIMESTAMP });
    const [validate] = await ask();
    expect(Object.keys(validate)).toEqual([
      ...["valid", "user_id", "email", "name", "organization", "license_type", "features", "quota"],
      ...["expires_at", "updates_until"],
    ]);
  });
});
