/**
 * Sends generated requests to the operators' API with valid tokens. None may fail, and no token or key may get into the
 * log or into a table.
 */
import fc from "fast-check";
import { ROUTES } from "../../src/admin/things.ts";
import { parseTrustedProxies } from "../../src/base/rate_limits/mod.ts";
import { makeSample } from "../admin/sample_requests.ts";
import { searchTables } from "../secret_leaks/places.ts";
import { createSecretSearch, type SecretSearch } from "../secret_leaks/secret_search.ts";
import { startAdmin, type TestAdmin } from "../support/admin.ts";
import { type OperatorRequest, operatorRequest, renderOperatorRequest } from "./operator_requests.ts";
import { createWire, type WireAnswer } from "./wire.ts";

export interface OperatorRunResult {
  /** The number of answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly secrets: { readonly known: number; readonly logLines: number; readonly rows: number };
  /** The first failure, with the smallest request that causes it. */
  readonly failure: string | undefined;
}

const SENDERS = 4;
/** Below the limit of a token. */
const REQUESTS_OF_TOKEN = 500;
const DEADLINE_MS = 10_000;

export async function sendToOperators({
  requests,
  seed,
}: {
  readonly requests: number;
  readonly seed: number;
}): Promise<OperatorRunResult> {
  const proxies = parseTrustedProxies("127.0.0.1");
  if (!proxies.ok) throw new Error(proxies.error);
  const admin = await startAdmin({ admin: { trustedProxies: proxies.proxies, logSlowMs: 0 } });
  const search = createSecretSearch();
  const statuses: Record<string, number> = {};
  const numRuns = Math.ceil(requests / SENDERS);
  const send = async (index: number) => {
    const sender = createSender(admin, { search, statuses });
    const property = fc.asyncProperty(operatorRequest, sender.send);
    const details = await fc.check(property, { seed: seed + index, numRuns });
    sender.close();
    if (!details.failed) return undefined;
    return `${details.errorInstance}\n  ${JSON.stringify(details.counterexample)}`;
  };
  const failures = await Promise.all(Array.from({ length: SENDERS }, (_, index) => send(index)));
  const tables = await searchTables(admin.database, search);
  const leaks = [...search.find(admin.logLines.join("")), ...tables.found];
  const failure =
    failures.find((each) => each !== undefined) ??
    (leaks.length > 0 ? `secrets were found: ${leaks.slice(0, 5).join("; ")}` : undefined);
  await admin.close();
  const secrets = { known: search.count, logLines: admin.logLines.length, rows: tables.searched };
  return { statuses, secrets, failure };
}

interface Sender {
  /** Sends one request and checks its answer; throws an error that says what is wrong. */
  send(request: OperatorRequest): Promise<void>;
  close(): void;
}

function createSender(
  admin: TestAdmin,
  { search, statuses }: { readonly search: SecretSearch; readonly statuses: Record<string, number> },
): Sender {
  const wire = createWire(admin.url, { deadlineMs: DEADLINE_MS });
  let token = "";
  let sent = 0;

  function judge({ status, body }: WireAnswer): void {
    statuses[status] = (statuses[status] ?? 0) + 1;
    const text = body.toString();
    if (status >= 500) throw new Error(`${status} ${text.slice(0, 500)}`);
    if (status >= 400 && text !== "" && !("code" in JSON.parse(text)))
      throw new Error(`${status} without a code`);
    const [, issued] = /"api_key":"(\w+)"/.exec(text) ?? [];
    if (issued !== undefined) search.add([{ name: "a key of an answer", value: issued }]);
  }

  return {
    async send(request) {
      if (sent++ % REQUESTS_OF_TOKEN === 0) {
        token = await admin.token();
        search.add([{ name: "a token", value: token }]);
      }
      const route = ROUTES[request.route];
      if (route === undefined) throw new Error(`There is no route ${request.route}`);
      const { apiKey } = await admin.issue();
      search.add([{ name: "an issued key", value: apiKey }]);
      const sample = await makeSample(admin, route);
      const { host } = new URL(admin.url);
      const rendered = renderOperatorRequest(request, { host, sample, token, apiKey });
      const outcome = await wire.send(rendered.bytes, {
        isBodiless: rendered.method === "HEAD",
        isLast: rendered.isLast,
      });
      if (outcome.kind === "answer" && outcome.headers.has("x-request-id")) return judge(outcome);
      const isRefusedByRuntime = outcome.kind === "closed" || outcome.kind === "answer";
      if (isRefusedByRuntime && rendered.mayRuntimeRefuse) return;
      throw new Error(`no answer: ${JSON.stringify(outcome)}`);
    },
    close: () => wire.close(),
  };
}
