/**
 * Made-up keys and links from an address whose window is full: they cost few statements, and they delay
 * other clients little.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { call, ENDPOINTS } from "../support/endpoints.ts";
import { addHostedModel, linkTo, testBytes } from "../support/hosted.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { NO_LIMITS, ON_NODE } from "../support/service.ts";
import { shortest } from "../support/shortest.ts";
import { useHostingService } from "../support/use.ts";

const service = useHostingService({ config: { limits: { ...NO_LIMITS, validate: 3, downloads: 3 } } });

beforeAll(async () => {
  await addHostedModel(service, { name: "m" }, testBytes(10));
});

/** Sends requests on 20 connections for `ms`, or until a promise settles; returns their statuses and the statements per second. */
async function flood(length: number | Promise<unknown>, send: (index: number) => Promise<number>) {
  const { database } = service.service;
  const beganMs = performance.now();
  const before = database.stats().statements;
  const statuses: number[] = [];
  let sent = 0;
  let isOver = false;
  const over = typeof length === "number" ? Bun.sleep(length) : length;
  const client = async () => {
    while (!isOver) statuses.push(await send(sent++));
  };
  const clients = Array.from({ length: 20 }, client);
  await over.finally(() => {
    isOver = true;
  });
  await Promise.all(clients);
  const seconds = (performance.now() - beganMs) / 1_000;
  return { statuses, perSecond: (database.stats().statements - before) / seconds };
}

let keysMadeUp = 0;
const makeUpKey = () => `svc_live_${(keysMadeUp++).toString(16).padStart(48, "0")}`;
const validate = async (key: string) => (await call(service, ENDPOINTS.validate, key)).status;
const forge = async (name: string) => {
  const rest = `key=key_${"0".repeat(32)}&expires=1&signer=x&signature=${"A".repeat(43)}`;
  return (await service.get(`/v1/models/download/${name}/1.0.0?${rest}`)).status;
};

// On Node the service is a process of its own, whose statements no test can count.
describe.skipIf(ON_NODE)("While the window of an address is full", () => {
  beforeAll(async () => {
    for (let times = 0; times < 4; times++) await validate(UNKNOWN_KEY);
    for (let times = 0; times < 4; times++) await forge("m");
  });

  test("made-up keys cost at most ten statements a second, and each gets 429", async () => {
    const { statuses, perSecond } = await flood(1_000, () => validate(makeUpKey()));
    expect(new Set(statuses)).toEqual(new Set([429]));
    expect(statuses.length).toBeGreaterThan(40);
    // Ten, and the statements of the service's own background tasks.
    expect(perSecond).toBeLessThan(13);
  });

  test("issued keys are found meanwhile", async () => {
    const longestOfFive = async () => {
      let longestMs = 0;
      for (let times = 0; times < 5; times++) {
        const { apiKey } = await service.issue();
        const beganMs = performance.now();
        expect(await validate(apiKey)).toBe(200);
        longestMs = Math.max(longestMs, performance.now() - beganMs);
        // From now on the key is in the cache.
        expect(await validate(apiKey)).toBe(200);
      }
      return longestMs;
    };
    // On an idle machine 100 ms, a round of gathered look-ups; 200 ms if the key comes just after a round began.
    const finding = shortest(300, longestOfFive);
    await flood(finding, () => validate(makeUpKey()));
    expect(await finding).toBeLessThan(300);
  });

  test("made-up links cost at most ten statements a second, and valid links work", async () => {
    const link = await linkTo(service, (await service.issue()).apiKey, "m");
    await service.advance(0);
    const { statuses, perSecond } = await flood(1_000, (index) => forge(`made-up-${index}`));
    expect(new Set(statuses)).toEqual(new Set([429]));
    expect(perSecond).toBeLessThan(13);
    expect((await fetch(link)).status).toBe(200);
  });

  test("a key at an endpoint whose window is not full is found without delay", async () => {
    const took: number[] = [];
    for (let keys = 0; keys < 5; keys++) {
      const { apiKey } = await service.issue();
      const beganMs = performance.now();
      const { body } = await call(service, ENDPOINTS.refresh, apiKey);
      expect(body.valid).toBe(true);
      took.push(performance.now() - beganMs);
    }
    // A gathered look-up waits 100 ms. A busy machine may delay some answers, but not all.
    expect(Math.min(...took)).toBeLessThan(95);
  });
});
