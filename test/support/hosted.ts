/** Hosts models in a test's service, and follows the links to them. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isRefusal } from "../../src/base/refusal.ts";
import { storeFile } from "../../src/models/mod.ts";
import { addTestModel } from "./models.ts";
import { testFolder } from "./postgres.ts";
import { startTestService, type TestService, type TestServiceOptions } from "./service.ts";

/** Differs from the address at which the test's service listens: links come only from the setting. */
export const PUBLIC_URL = "https://licenses.example.org/prefix";

export interface HostingService extends TestService {
  readonly dataDir: string;
}

/** Starts a service with its own data folder. Its public address is {@linkcode PUBLIC_URL}. */
export async function startHostingService(options: TestServiceOptions = {}): Promise<HostingService> {
  const dataDir = mkdtempSync(join(testFolder(), "hosting-"));
  chmodSync(dataDir, 0o711);
  const config = { dataDir, publicUrl: PUBLIC_URL, ...options.config };
  const service = await startTestService({ ...options, config });
  return {
    ...service,
    get logLines() {
      return service.logLines;
    },
    dataDir,
    async close() {
      await service.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** Stores bytes and registers them as `models add --file` does; returns their SHA-256. */
export async function addHostedModel(
  service: HostingService,
  model: { readonly name: string; readonly [field: string]: unknown },
  source: Uint8Array | { readonly path: string },
): Promise<string> {
  const path = "path" in source ? source.path : join(service.dataDir, "source");
  if (!("path" in source)) writeFileSync(path, source);
  const stored = await storeFile(service, path, { now: new Date(), onProgress() {} });
  if (isRefusal(stored)) throw new Error(stored.sentence);
  await addTestModel(service, {
    sizeMb: stored.sizeBytes / 1e6,
    ...model,
    downloadUrl: null,
    checksum: stored.sha256,
    hostedBytes: stored.sizeBytes,
  });
  return stored.sha256;
}

/** Returns the link to a model from the key's list, changed to point at the test's service. */
export async function linkTo(service: HostingService, apiKey: string, name: string): Promise<string> {
  const { body } = await service.get("/v1/models/list", { "X-API-Key": apiKey });
  const model = body.models.find((each: { name: string }) => each.name === name);
  if (model === undefined) throw new Error(`${name} is not listed`);
  return model.download_url.replace(PUBLIC_URL, service.url);
}

/** Returns bytes that differ from place to place, so that a test notices a shifted range. */
export function testBytes(length: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let index = 0; index < length; index++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[index] = state >>> 24;
  }
  return bytes;
}
