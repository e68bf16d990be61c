import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../../database/mod.ts";
import { BucketFailure } from "../../models/bucket/mod.ts";
import { listFiles, modelsFolderOf, pathOfFile, selectFiles } from "../../models/mod.ts";
import type { Config } from "../config/mod.ts";
import type { ServerContext } from "./examine_server.ts";
import { type Check, type CheckResult, fail, ok, skipUnseen } from "./finding.ts";

const LIMIT_MS = 3_000;
const GOES_ON = "remove this cause; downloads of files that this host keeps go on";

/**
 * Checks that every hosted file is in the bucket, or without one in the folder, with its size; `claviger models verify`
 * also reads the content. Health must answer soon, so it does not wait for a bucket or a mount that does not answer.
 */
export const modelFilesCheck: Check<Pick<ServerContext, "database" | "config">> = {
  name: "model files",
  async examine({ database, config }) {
    const { modelsBucket } = config;
    const ended = new AbortController();
    const bounded = { ...config, modelsBucket: modelsBucket && { ...modelsBucket, signal: ended.signal } };
    const place = modelsBucket ? `the bucket ${modelsBucket.url}` : `the folder ${modelsFolderOf(config)}`;
    const late = fail(`${place} does not answer within ${LIMIT_MS / 1_000} s`, GOES_ON);
    try {
      return await Promise.race([
        examineFiles(database, bounded, place),
        sleep(LIMIT_MS, late, { ref: false }),
      ]);
    } finally {
      ended.abort();
    }
  },
};

async function examineFiles(database: Database, config: Config, place: string): Promise<CheckResult> {
  const files = await database.query(selectFiles);
  const sizes = new Map<string, number>();
  try {
    for (const { path, sizeBytes, bucket } of await listFiles(config))
      if (bucket?.url === config.modelsBucket?.url) sizes.set(path, sizeBytes);
  } catch (error) {
    if (!(error instanceof BucketFailure)) throw error;
    return skipUnseen(config) ?? fail(error.message, GOES_ON);
  }
  const wrong = files.filter(({ sha256, sizeBytes }) => sizes.get(pathOfFile("", sha256)) !== sizeBytes);
  if (wrong.length > 0) {
    return fail(
      `missing or cut short in ${place}, as this host sees it: ${wrong.length} of ${files.length}`,
      config.modelsBucket
        ? "`claviger models verify` names them; run `claviger models move --to s3` on a host that has them, or add them " +
            "again or restore them"
        : "`claviger models verify` names them; add them again or restore them; with several hosts, see `claviger guide models`",
    );
  }
  return ok(files.length === 0 ? "none are hosted here" : `${files.length}, all there`);
}
