/**
 * The first use of many licenses, each by twelve requests at once through three processes on one database, while processes
 * are killed and their connections are cut. The clocks of the processes differ, so a second start would have another
 * end. Each license starts once, and every answer names the end that the row has. Refused requests start nothing.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import type { IssuedKey } from "../../src/licensing/keys/mod.ts";
import { type FaultyProxy, startFaultyProxy } from "../support/faulty_proxy.ts";
import { issue } from "../support/issue.ts";
import { createRandom } from "../support/random.ts";
import type { JsonResponse } from "../support/service.ts";
import { giveTerm, readTerm } from "../support/terms.ts";
import { useForAll } from "../support/use.ts";
import { createInstallation, type Replica } from "./installation.ts";

const LICENSES = 60;
const AT_ONCE = 6;
const REQUESTS = 12;
const DAYS = 30;
const CLOCKS_MS = [-90_000, 0, 90_000];
const USES = [
  ["/v1/auth/validate", {}],
  ["/v1/auth/refresh", {}],
  ["/v1/auth/license", {}],
  ["/v1/analytics/log", { event_type: "inference" }],
  ["/v1/machines/activate", { fingerprint: "workstation-7" }],
] as const;

const installation = useForAll(createInstallation);
const random = createRandom(Date.now());

interface Place {
  readonly proxy: FaultyProxy;
  replica: Replica;
}

async function serve(index: number, proxy: FaultyProxy): Promise<Replica> {
  return await installation.serve({
    DATABASE_URL: proxy.address.url,
    BUN_OPTIONS: `--preload ${join(import.meta.dir, "../support/moved_clock.ts")}`,
    TEST_CLOCK_OFFSETS: JSON.stringify({ wallMs: CLOCKS_MS[index], monotonicMs: 0 }),
  });
}

/** Returns the end that an answer names; undefined if it names none. */
function endOf({ body }: JsonResponse): string | undefined {
  if (body.license === undefined) return body.expires_at;
  const [, claims = ""] = body.license.split(".");
  return JSON.parse(Buffer.from(claims, "base64url").toString()).license_expires_at;
}

test(`${LICENSES} licenses start once each while processes are killed and connections are cut, and every answer names that start`, async () => {
  const { database } = installation;
  await using proxies = new AsyncDisposableStack();
  const places: Place[] = [];
  for (const index of CLOCKS_MS.keys()) {
    const proxy = proxies.use(await startFaultyProxy(installation.address));
    places.push({ proxy, replica: await serve(index, proxy) });
  }
  const latestStart = new Date(Date.now() + 100 * 86_400_000);
  const accepted = new Map<string, JsonResponse[]>();
  let unanswered = 0;

  async function use(key: IssuedKey): Promise<void> {
    const [path, fields] = random.pick(USES);
    await Bun.sleep(random.between(0, 30));
    const answer = await random
      .pick(places)
      .replica.post(path, { api_key: key.apiKey, ...fields })
      .catch(() => undefined);
    if (answer === undefined || answer.status === 503) unanswered++;
    else {
      expect(answer.status).toBeWithin(200, 203);
      accepted.set(key.licenseUuid, [...(accepted.get(key.licenseUuid) ?? []), answer]);
    }
  }

  /** What happens in the middle of a round; the third round of each four is undisturbed. */
  async function disturb(round: number): Promise<void> {
    await Bun.sleep(random.between(5, 40));
    const index = random.between(0, 2);
    const place = places[index];
    if (place === undefined || round % 4 === 2) return;
    if (round % 4 === 0) {
      await place.replica.kill("SIGKILL");
      place.replica = await serve(index, place.proxy);
    } else {
      place.proxy.set("closing");
      await Bun.sleep(random.between(1, 100));
      place.proxy.set("none");
    }
  }

  const keys: IssuedKey[] = [];
  const refused: IssuedKey[] = [];
  for (let round = 0; keys.length < LICENSES; round++) {
    const used = await Promise.all(Array.from({ length: AT_ONCE }, () => issue(database)));
    const unused = await issue(database, { monthlyLimit: 0 });
    for (const key of [...used, unused]) await giveTerm(database, key, { days: DAYS, latestStart });
    const refusals = Array.from({ length: REQUESTS }, () =>
      random
        .pick(places)
        .replica.post("/v1/auth/validate", { api_key: unused.apiKey })
        .catch(() => undefined),
    );
    await Promise.all([
      ...used.flatMap((key) => Array.from({ length: REQUESTS }, () => use(key))),
      ...refusals,
      disturb(round),
    ]);
    keys.push(...used);
    refused.push(unused);
    // Those whose answers were lost are asked again, as clients do.
    for (const key of used) {
      for (let tries = 0; tries < 100 && !accepted.has(key.licenseUuid); tries++) await use(key);
    }
  }

  for (const key of keys) {
    const { startedAt, expiresAt, starts } = await readTerm(database, key);
    expect(starts).toBe(1);
    expect(expiresAt.getTime()).toBe((startedAt?.getTime() ?? 0) + DAYS * 86_400_000);
    const answers = accepted.get(key.licenseUuid) ?? [];
    expect(answers.length).toBeGreaterThan(0);
    const ends = answers.map(endOf).filter((end) => end !== undefined && end !== null);
    for (const end of ends) expect(new Date(end).getTime()).toBe(expiresAt.getTime());
  }
  for (const key of refused)
    expect(await readTerm(database, key)).toMatchObject({ startedAt: null, starts: 0 });
  const answers = [...accepted.values()].reduce((sum, { length }) => sum + length, 0);
  console.log(`First uses: ${JSON.stringify({ licenses: keys.length, answers, unanswered })}`);
  expect(unanswered).toBeGreaterThan(0);
});
