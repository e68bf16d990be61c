/**
 * A client that `openapi-typescript` generates from the document, compiled with TypeScript's strictest
 * options: it can send every accepted body, and accepts values that later versions may add.
 */
import { expect, test } from "bun:test";
import { generateClient } from "../support/generated_client.ts";
import { startTestService } from "../support/service.ts";
import { useForAll } from "../support/use.ts";

/** The operations that have a body, each with a body that its generated type must accept. */
const BODIES = {
  validateKey: {},
  refreshKey: {},
  revokeKey: { reason: "A laptop was lost" },
  postForRepositoryToken: {},
  logEvent: { event_type: "inference", metadata: { a: 1, nested: { b: [1] } } },
};

const client = useForAll(async () => {
  await using service = await startTestService();
  const document = await (await fetch(`${service.url}/openapi.json`)).text();
  return await generateClient(document);
});

/** Compiles a client's lines and returns the compiler's output, which is empty if they compile. */
async function compile(lines: readonly string[]): Promise<string> {
  const head = [
    'import type { components, operations } from "./api.ts";',
    "type Request<Name extends keyof operations> = Pick<operations[Name], 'requestBody'>;",
    "declare function send<Name extends keyof operations>(name: Name, request: Request<Name>): void;",
    "type Schema<Name extends keyof components['schemas']> = components['schemas'][Name];",
  ];
  return await client.compile([...head, ...lines, ""].join("\n"));
}

const sending = (name: string, body: object) =>
  `send("${name}", { requestBody: { content: { "application/json": ${JSON.stringify(body)} } } });`;

test("a generated client can send every body, including metadata of any form", async () => {
  expect(await compile(Object.entries(BODIES).map(([name, body]) => sending(name, body)))).toBe("");
});

test("a generated client does not compile without a body, or with metadata that is not an object", async () => {
  const wrong = Object.keys(BODIES).map((name) => `send("${name}", {});`);
  wrong.push(sending("logEvent", { event_type: "inference", metadata: "text" }));
  const said = await compile(wrong);
  const refused = said.match(/^client\.ts\(\d+,\d+\): error TS\d+/gm) ?? [];
  expect({ said, refused: refused.length }).toEqual({ said, refused: wrong.length });
});

test("a generated client accepts codes and features that later versions add", async () => {
  const lines = [
    "export const code: Schema<'Error'>['code'] = 'OF_LATER';",
    "export const features: Schema<'Validation'>['features'] = ['batch_inference', 'of_later'];",
    "type Refusal = operations['validateKey']['responses'][401]['content']['application/json'];",
    "export const refusal: Refusal = { error: 'A sentence', code: 'OF_LATER' };",
  ];
  expect(await compile(lines)).toBe("");
});
