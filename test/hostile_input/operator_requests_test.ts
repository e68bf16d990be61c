/**
 * Generated requests to every route of the operators' API with a valid token: none fails, and no token or key is in the
 * log. `HOSTILE_SEED` sets the seed, which is printed.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { ROUTES } from "../../src/admin/api/routes.ts";
import { parseTrustedProxies } from "../../src/limits/mod.ts";
import { makeSample } from "../admin/sample_requests.ts";
import { searchTables } from "../secret_leaks/places.ts";
import { createSecretSearch } from "../secret_leaks/secret_search.ts";
import { startAdmin, type TestAdmin } from "../support/admin.ts";
import { type OperatorRequest, operatorRequest, renderOperatorRequest } from "./operator_requests.ts";
import { createWire, type WireAnswer } from "./wire.ts";

const SENDERS = 4;
const REQUESTS = 3_000;
/** Below the limit of a token. */
const REQUESTS_OF_TOKEN = 500;
const DEADLINE_MS = 10_000;
const seed = Number(process.env.HOSTILE_SEED ?? Math.floor(Math.random() * 2 ** 31));

test("Every generated request is answered without a failure, and no token or key gets into logs or tables", async () => {
  console.log(`Generated requests: HOSTILE_SEED=${seed}`);
  const proxies = parseTrustedProxies("127.0.0.1");
  if (!proxies.ok) throw new Error(proxies.error);
  const admin = await startAdmin({ admin: { trustedProxies: proxies.proxies, logSlowMs: 0 } });
  const search = createSecretSearch();
  const statuses: Record<string, number> = {};
  const senders = Array.from({ length: SENDERS }, (_, index) => createSender(admin, index));
  const failures = await Promise.all(senders.map((send) => send()));
  const failure = failures.find((each) => each !== undefined);
  if (failure !== undefined) throw new Error(`With HOSTILE_SEED=${seed}: ${failure}`);

  const found = [
    ...search.find(admin.logLines.join("")),
    ...(await searchTables(admin.database, search)).found,
  ];
  expect(found).toEqual([]);
  expect(admin.logLines.length).toBeGreaterThan(REQUESTS / 2);
  expect(search.count).toBeGreaterThan(SENDERS);
  expect(Object.keys(statuses)).toEqual(
    expect.arrayContaining(["200", "201", "400", "401", "404", "405", "413", "415"]),
  );
  await admin.close();

  function createSender(admin: TestAdmin, index: number): () => Promise<string | undefined> {
    const wire = createWire(admin.url, { deadlineMs: DEADLINE_MS });
    let token = "";
    let sent = 0;

    async function send(request: OperatorRequest): Promise<void> {
      if (sent++ % REQUESTS_OF_TOKEN === 0) {
        token = await admin.token();
        search.add([{ name: "a token", value: token }]);
      }
      const route = ROUTES[request.route];
      if (route === undefined) return;
      const { apiKey } = await admin.issue();
      search.add([{ name: "an issued key", value: apiKey }]);
      const rendered = renderOperatorRequest(request, {
        host: new URL(admin.url).host,
        sample: await makeSample(admin, route),
        token,
        apiKey,
      });
      const outcome = await wire.send(rendered.bytes, {
        isBodiless: rendered.method === "HEAD",
        isLast: rendered.isLast,
      });
      if (outcome.kind === "answer" && outcome.headers.has("x-request-id")) return judge(outcome);
      const isRefusedByRuntime = outcome.kind === "closed" || outcome.kind === "answer";
      if (!isRefusedByRuntime || !rendered.mayRuntimeRefuse)
        throw new Error(`no answer: ${JSON.stringify(outcome)}`);
    }

    function judge({ status, body }: WireAnswer): void {
      statuses[status] = (statuses[status] ?? 0) + 1;
      const text = body.toString();
      if (status >= 500) throw new Error(`${status} ${text.slice(0, 500)}`);
      if (status >= 400 && text !== "" && !("code" in JSON.parse(text)))
        throw new Error(`${status} without a code`);
      const [, issued] = /"api_key":"(\w+)"/.exec(text) ?? [];
      if (issued !== undefined) search.add([{ name: "a key of an answer", value: issued }]);
    }

    return async () => {
      const property = fc.asyncProperty(operatorRequest, send);
      const details = await fc.check(property, { seed: seed + index, numRuns: REQUESTS / SENDERS });
      wire.close();
      if (!details.failed) return undefined;
      return `${details.errorInstance}\n  ${JSON.stringify(details.counterexample)}`;
    };
  }
}, 120_000);
