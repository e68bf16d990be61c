/**
 * A client that `openapi-typescript` generates from the document of the operators' API: compiled with TypeScript's
 * strictest options, it works through the life of a key at a real listener.
 */
import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { generateClient } from "../support/generated_client.ts";
import { useAdmin, useForAll } from "../support/use.ts";

/**
 * Sends any operation with the types of the document. A caller must give the fields that the document requires, and
 * gets the type that the document promises for the status.
 */
const SEND = `
import type { components, operations } from "./api.ts";

declare const process: { readonly argv: readonly string[] };
const [, , address = "", token = ""] = process.argv;

type Success<Name extends keyof operations> = operations[Name]["responses"] extends infer Responses
  ? Responses extends { 200: { content: { "application/json": infer Body } } }
    ? Body
    : Responses extends { 201: { content: { "application/json": infer Body } } }
      ? Body
      : never
  : never;
type Parts<Name extends keyof operations> = operations[Name] extends { parameters: infer Parameters; requestBody?: infer Sent }
  ? Parameters & { body?: Sent extends { content: { "application/json": infer Body } } ? Body : never }
  : never;
interface AnyParts {
  readonly path?: Record<string, string>;
  readonly query?: Record<string, string | number>;
  readonly header?: Record<string, string>;
  readonly body?: unknown;
}

export class Refused extends Error {
  readonly refusal: components["schemas"]["Error"];
  constructor(refusal: components["schemas"]["Error"]) {
    super(refusal.error);
    this.refusal = refusal;
  }
}

async function send<Name extends keyof operations>(
  route: string,
  _: Name,
  parts: Omit<Parts<Name>, "cookie">,
): Promise<Success<Name>> {
  const [method = "", template = ""] = route.split(" ");
  const { path = {}, query = {}, header = {}, body } = parts as AnyParts;
  const filled = template.replace(/{(\\w+)}/g, (__, name: string) => path[name] ?? "");
  const parameters = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
  const answer = await fetch(\`\${address}/admin/v1\${filled}?\${parameters}\`, {
    method,
    headers: { authorization: \`Bearer \${token}\`, ...header },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const json = await answer.json();
  if (!answer.ok) throw new Refused(json as components["schemas"]["Error"]);
  return json as Success<Name>;
}
`;

const LIFE = `
const order = { email: "grace@example.org", tier: "research", external_id: "order-1" } as const;
const header = { "Idempotency-Key": "order-1-of-the-shop" };
const issued = await send("POST /keys", "issueKey", { header, body: order });
const again = await send("POST /keys", "issueKey", { header, body: order });
const { id } = issued;
const other = await send("POST /keys", "issueKey", {
  header: { "Idempotency-Key": "order-2-of-the-shop" },
  body: { email: "ada@example.org", tier: "free", expires_at: "2027-06-01T00:00:00Z" },
});

const page: components["schemas"]["ListKeysAnswer"] = await send("GET /keys", "listKeys", { query: { limit: 1 } });
const rest = await send("GET /keys", "listKeys", { query: { limit: 1, after: page.next ?? "" } });
const found = await send("POST /keys/find", "findKey", { body: { api_key: issued.api_key } });
const why = await send("GET /keys/{id}/why", "explainKey", { path: { id } });
await send("POST /keys/{id}/suspend", "suspendKey", { path: { id }, body: { reason: "unpaid" } });
await send("POST /keys/{id}/resume", "resumeKey", { path: { id } });
await send("PATCH /licenses/{id}", "updateLicense", {
  path: { id: issued.license_id },
  body: { tier: "commercial", monthly_limit: 5_000, external_id: null },
});
const license = await send("GET /licenses/{id}", "getLicense", { path: { id: issued.license_id } });
const rotated = await send("POST /keys/{id}/rotate", "rotateKey", {
  path: { id },
  header: { "Idempotency-Key": "rotation-1-of-order-1" },
});
const revoked = await send("POST /keys/{id}/revoke", "revokeKey", { path: { id: other.id } });
const accounts = await send("GET /accounts", "listAccounts", { query: { search: "grace" } });
// A row appears only when no older transaction of the server is open, and other tests have such transactions.
const readAudit = () => send("GET /audit", "followAudit", { query: { action: "key.revoke" } });
const untilMs = Date.now() + 20_000;
let audit = await readAudit();
while (audit.data.length === 0 && Date.now() < untilMs) {
  // Without a pause the requests fill the token's window.
  await new Promise((resolve) => setTimeout(resolve, 200));
  audit = await readAudit();
}
const usage = await send("GET /usage", "listUsage", {});
const models = await send("GET /models", "listModels", {});
const status = await send("GET /status", "getStatus", {});
const me = await send("GET /whoami", "whoami", {});
let refusal: string | undefined;
try {
  await send("POST /keys/{id}/suspend", "suspendKey", { path: { id: other.id } });
} catch (error) {
  if (error instanceof Refused) refusal = error.refusal.code;
}

console.log(
  JSON.stringify({
    same: issued.api_key === again.api_key,
    pages: [...page.data, ...rest.data].map((key) => key.id === id || key.id === other.id),
    last: rest.next,
    found: found.id === id,
    why: typeof why,
    tier: license.tier,
    limit: license.monthly_limit,
    isNew: rotated.api_key !== issued.api_key,
    revoked: revoked.state,
    accounts: accounts.data.map(({ email }) => email),
    audit: audit.data.map(({ action }) => action),
    usage: usage.data.length,
    models: models.data.length,
    status: typeof status,
    name: me.name,
    refusal,
  }),
);
`;

const admin = useAdmin();
setDefaultTimeout(60_000);
const client = useForAll(async () => {
  const { body } = await admin.call("GET", "/openapi.json");
  return await generateClient(JSON.stringify(body));
});

test("a generated client compiles, and works through the life of a key", async () => {
  expect(await client.compile(SEND + LIFE)).toBe("");
  const token = await admin.token({ name: "generated" });
  const child = Bun.spawn([process.execPath, join(client.folder, "client.ts"), admin.url, token], {
    cwd: client.folder,
    env: {},
    stdio: ["ignore", "pipe", "inherit"],
  });
  expect(JSON.parse(await child.stdout.text())).toEqual({
    same: true,
    pages: [true, true],
    last: null,
    found: true,
    why: "object",
    tier: "commercial",
    limit: 5_000,
    isNew: true,
    revoked: "revoked",
    accounts: ["grace@example.org"],
    audit: ["key.revoke"],
    usage: 0,
    models: 0,
    status: "object",
    name: "generated",
    refusal: "CONFLICT",
  });
});

test("a generated client does not compile if it leaves out what the document requires, or invents a value", async () => {
  const wrong = [
    'await send("POST /keys", "issueKey", { body: { email: "a@b.example", tier: "free" } });',
    'await send("POST /keys", "issueKey", { header: { "Idempotency-Key": "x" }, body: { email: "a@b.example" } });',
    'await send("GET /keys/{id}", "getKey", {});',
    'await send("GET /keys", "listKeys", { query: { limit: "all" } });',
    'await send("GET /keys", "listKeys", { query: { colour: "red" } });',
    '(await send("GET /keys", "listKeys", {})).data[0]?.api_key;',
  ];
  const said = await client.compile(`${SEND}\n${wrong.join("\n")}\n`);
  const refused = new Set(said.match(/^client\.ts\(\d+/gm));
  expect({ said, refused: refused.size }).toEqual({ said, refused: wrong.length });
});
