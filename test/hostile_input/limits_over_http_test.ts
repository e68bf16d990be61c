/** The windows over HTTP: with many requests at once, across the end of a minute, and for all forms of addresses. */
import { describe, expect, test } from "bun:test";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import { ALL, call, ENDPOINTS, type Endpoint } from "../support/endpoints.ts";
import { UNKNOWN_KEY } from "../support/keys.ts";
import { type JsonResponse, startTestService, type TestService } from "../support/service.ts";
import { useForAll } from "../support/use.ts";

const service = useForAll(async () => {
  const proxies = parseTrustedProxies("127.0.0.1");
  if (!proxies.ok) throw new Error(proxies.error);
  return await startTestService({
    limits: "default",
    config: { trustedProxies: proxies.proxies, logRequests: "off" },
  });
});

const isAccepted = ({ status, body }: JsonResponse) =>
  !(status === 429 && body.code === "RATE_LIMIT_EXCEEDED");

interface Sender {
  readonly key: string;
  readonly address: string;
}

let addresses = 0;
const newAddress = () => `198.51.100.${++addresses}`;

/** Returns a sender whose requests count in one window: of its key, or of its address if the key is unknown. */
async function newSender(isKnown: boolean): Promise<Sender> {
  const address = newAddress();
  if (!isKnown) return { key: UNKNOWN_KEY, address };
  return { key: (await service.issue()).apiKey, address };
}

/**
 * Sends `times` requests on up to 100 connections at once, and counts those that the rate limit admitted. On a busy machine
 * the database may miss a deadline before or after the limit: such a 503 counts as admitted up to the limit.
 */
async function countAccepted(endpoint: Endpoint, { key, address }: Sender, times: number): Promise<number> {
  // A revoked key has no window any more. An invalid reason is counted, but does not revoke the key.
  const fields = endpoint === ENDPOINTS.revoke ? { reason: 5 } : {};
  let accepted = 0;
  let late = 0;
  let left = times;
  const client = async () => {
    while (left-- > 0) {
      const headers = { "X-Forwarded-For": address };
      const answer = await call(service, endpoint, key, { headers, fields });
      if (answer.status === 503 && answer.body.code === "SERVICE_UNAVAILABLE") late++;
      else if (isAccepted(answer)) accepted++;
      else expect(Number(answer.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    }
  };
  await Promise.all(Array.from({ length: Math.min(times, 100) }, client));
  return Math.max(accepted, Math.min(accepted + late, endpoint.perMinute));
}

/** Moves the clock to `msOfMinute` milliseconds past a whole minute. */
async function moveTo(msOfMinute: number): Promise<void> {
  await service.advance((msOfMinute - (service.clock.monotonicMs() % 60_000) + 60_000) % 60_000);
}

for (const endpoint of ALL) {
  for (const isKnown of [true, false]) {
    const { title, perMinute } = endpoint;
    const whose = isKnown ? "a key" : "an address";
    test(`${title} accepts exactly ${perMinute} of ${3 * perMinute} requests at once from ${whose}`, async () => {
      const sender = await newSender(isKnown);
      expect(await countAccepted(endpoint, sender, 3 * perMinute)).toBe(perMinute);
    }, 60_000);
  }

  test(`${endpoint.title} accepts ${endpoint.perMinute} at 59.9 s of a minute and none at 60.1 s`, async () => {
    const { perMinute } = endpoint;
    const sender = await newSender(true);
    await moveTo(59_900);
    expect(await countAccepted(endpoint, sender, perMinute)).toBe(perMinute);
    // The clock's next minute has begun, but the 60 seconds after the requests have not passed.
    await service.advance(200);
    expect(await countAccepted(endpoint, sender, perMinute)).toBe(0);
    await service.advance(50_000);
    expect(await countAccepted(endpoint, sender, 1)).toBe(0);
    await service.advance(30_000);
    expect(await countAccepted(endpoint, sender, perMinute)).toBe(perMinute);
  }, 60_000);
}

describe("The window of an address", () => {
  const { refresh } = ENDPOINTS;

  async function remainingFrom(target: TestService, forwardedFor: string | undefined): Promise<number> {
    const headers = forwardedFor === undefined ? {} : { "X-Forwarded-For": forwardedFor };
    const answer = await call(target, refresh, UNKNOWN_KEY, { headers });
    return Number(answer.headers.get("x-ratelimit-remaining"));
  }

  test("is shared by a thousand addresses of one /64", async () => {
    const network = "2001:db8:5:5";
    let accepted = 0;
    for (let host = 0; host < 1_000; host++) {
      const from = {
        headers: { "X-Forwarded-For": `${network}:${host.toString(16)}::${host.toString(16)}` },
      };
      if (isAccepted(await call(service, refresh, UNKNOWN_KEY, from))) accepted++;
    }
    expect(accepted).toBe(refresh.perMinute);
    expect(await remainingFrom(service, "2001:db8:5:6::1")).toBe(refresh.perMinute - 1);
  });

  test("stays the same if a client forges addresses to the left of the proxy's entry", async () => {
    const address = newAddress();
    let accepted = 0;
    for (let forged = 0; forged < 100; forged++) {
      const from = { headers: { "X-Forwarded-For": `203.0.113.${forged}, ${address}` } };
      if (isAccepted(await call(service, refresh, UNKNOWN_KEY, from))) accepted++;
    }
    expect(accepted).toBe(refresh.perMinute);
  });

  test("stays the same if a client without a proxy forges addresses", async () => {
    const direct = await startTestService({ limits: "default" });
    try {
      let accepted = 0;
      for (let forged = 0; forged < 100; forged++) {
        const from = { headers: { "X-Forwarded-For": `203.0.113.${forged}` } };
        if (isAccepted(await call(direct, refresh, UNKNOWN_KEY, from))) accepted++;
      }
      expect(accepted).toBe(refresh.perMinute);
    } finally {
      await direct.close();
    }
  });

  test("is the same for an IPv4 address on an IPv6 socket, where the system shows it mapped", async () => {
    const proxies = parseTrustedProxies("127.0.0.1");
    if (!proxies.ok) throw new Error(proxies.error);
    const dual = await startTestService({
      limits: "default",
      config: { host: "::", trustedProxies: proxies.proxies },
    });
    try {
      const from = async (host: string, forwardedFor: string) => {
        const answer = await fetch(`http://${host}:${dual.service.port}${refresh.path}`, {
          method: "POST",
          headers: { "X-Forwarded-For": forwardedFor },
          body: JSON.stringify({ api_key: UNKNOWN_KEY }),
        });
        await answer.text();
        return Number(answer.headers.get("x-ratelimit-remaining"));
      };
      // Given: the peer is ::ffff:127.0.0.1, and 127.0.0.1 is trusted. Then: its X-Forwarded-For is trusted.
      expect(await from("127.0.0.1", "192.0.2.1")).toBe(refresh.perMinute - 1);
      expect(await from("127.0.0.1", "::ffff:192.0.2.1")).toBe(refresh.perMinute - 2);
      expect(await from("127.0.0.1", "192.0.2.2")).toBe(refresh.perMinute - 1);
      // Another peer is not trusted: its own network counts, whatever its X-Forwarded-For.
      expect(await from("[::1]", "192.0.2.3")).toBe(refresh.perMinute - 1);
      expect(await from("[::1]", "192.0.2.4")).toBe(refresh.perMinute - 2);
    } finally {
      await dual.close();
    }
  });
});
