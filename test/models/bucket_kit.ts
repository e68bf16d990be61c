/** A service whose model files are in a bucket, and another host that adds models to the same bucket. */
import { existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../src/installation/config/mod.ts";
import type { BucketSettings } from "../../src/models/bucket/mod.ts";
import { pathOfFile } from "../../src/models/mod.ts";
import { type BucketStandIn, REGION, startBucketStandIn } from "../support/bucket_stand_in.ts";
import { addHostedModel, type HostingService, startHostingService } from "../support/hosted.ts";
import { testFolder } from "../support/postgres.ts";

export interface BucketStage extends AsyncDisposable {
  readonly server: BucketStandIn;
  readonly bucket: BucketSettings;
  readonly service: HostingService;
  /** Adds a model on another host; returns the SHA-256 of its file. */
  addElsewhere(name: string, bytes: Uint8Array): Promise<string>;
  /** Downloads a model with a key in the header. */
  download(name: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Returns the path of a file on this host. */
  pathOf(sha256: string): string;
  /** Tells whether this host has the file of a model. */
  isCached(sha256: string): boolean;
  close(): Promise<void>;
}

export async function startBucketStage(config: Partial<Config> = {}): Promise<BucketStage> {
  const server = await startBucketStandIn();
  const settings = { url: server.url, region: REGION, caFile: undefined };
  const credentialsFile = join(mkdtempSync(join(testFolder(), "bucket-")), "credentials");
  writeFileSync(credentialsFile, server.credentials);
  const bucket: BucketSettings = { ...settings, credentialsFile };
  const service = await startHostingService({ config: { modelsBucket: bucket, ...config } });
  const { apiKey } = await service.issue({ tier: "enterprise" });
  const elsewhere = { ...service, dataDir: join(service.dataDir, "elsewhere"), modelsBucket: bucket };
  mkdirSync(elsewhere.dataDir, 0o700);
  async function close(): Promise<void> {
    await service.close();
    await server.close();
  }
  const pathOf = (sha256: string) => pathOfFile(join(service.dataDir, "models"), sha256);
  return {
    server,
    bucket,
    service,
    addElsewhere: (name, bytes) => addHostedModel(elsewhere, { name, version: "1.0" }, bytes),
    download: (name, headers = {}) =>
      fetch(`${service.url}/v1/models/download/${name}/1.0`, {
        headers: { "X-API-Key": apiKey, ...headers },
      }),
    pathOf,
    isCached: (sha256) => existsSync(pathOf(sha256)),
    close,
    [Symbol.asyncDispose]: close,
  };
}
