import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../../database/mod.ts";
import { BucketFailure } from "../../models/bucket/mod.ts";
import { listFiles, modelsFolderOf, pathOfFile, selectFiles } from "../../models/mod.ts";
import type { Config } from "../config/mod.ts";
import type { ServerContext } from "./examine_server.ts";
import { type Check, type CheckResult, examine, fail, ok, skipUnseen } from "./finding.ts";

const LIMIT_MS = 3_000;
const GOES_ON = "remove this cause; downloads of files that this host keeps go on";

type Context = Pick<ServerContext, "database" | "config">;

/**
 * Checks that every hosted file is in the bucket, or without one in the folder, with its size; `claviger models verify`
 * also reads the content. Health must answer soon, so it does not wait for a bucket or a mount that does not answer.
 */
export const modelFilesCheck: Check<Context> = {
  name: "model files",
  async examine(context) {
    const { result } = await examineInTime(context);
    return result;
  },
};

/** What is wrong with files of models: some are not there with their sizes, or nobody can tell. */
interface WrongModelFiles {
  readonly fault: "missing" | "unreachable";
  /** The finding in words, with numbers that change while the fault stays the same. */
  readonly says: string;
}

/**
 * Returns what the check of model files finds wrong: null if nothing is, and undefined if this process cannot see it. One answer that
 * comes late is no fault yet, so it asks a second time.
 */
export async function findWrongModelFiles(context: Context): Promise<WrongModelFiles | null | undefined> {
  const found = await lookForWrong(context);
  return found?.fault === "unreachable" ? await lookForWrong(context) : found;
}

async function lookForWrong(context: Context): Promise<WrongModelFiles | null | undefined> {
  let areMissing = false;
  const check: Check<Context> = {
    name: modelFilesCheck.name,
    async examine(context) {
      const examined = await examineInTime(context);
      areMissing = examined.areMissing;
      return examined.result;
    },
  };
  const [finding] = await examine(context, [check]);
  if (finding?.state === "ok") return null;
  if (finding?.state !== "fail") return undefined;
  return { fault: areMissing ? "missing" : "unreachable", says: finding.message };
}

interface Examined {
  readonly result: CheckResult;
  readonly areMissing: boolean;
}

async function examineInTime({ database, config }: Context): Promise<Examined> {
  const { modelsBucket } = config;
  const ended = new AbortController();
  const bounded = { ...config, modelsBucket: modelsBucket && { ...modelsBucket, signal: ended.signal } };
  const place = modelsBucket ? `the bucket ${modelsBucket.url}` : `the folder ${modelsFolderOf(config)}`;
  const late = fail(`${place} does not answer within ${LIMIT_MS / 1_000} s`, GOES_ON);
  try {
    return await Promise.race([
      examineFiles(database, bounded, place),
      sleep(LIMIT_MS, { result: late, areMissing: false }, { ref: false }),
    ]);
  } finally {
    ended.abort();
  }
}

async function examineFiles(database: Database, config: Config, place: string): Promise<Examined> {
  const files = await database.query(selectFiles);
  const sizes = new Map<string, number>();
  try {
    for (const { path, sizeBytes, bucket } of await listFiles(config))
      if (bucket?.url === config.modelsBucket?.url) sizes.set(path, sizeBytes);
  } catch (error) {
    if (!(error instanceof BucketFailure)) throw error;
    return { result: skipUnseen(config) ?? fail(error.message, GOES_ON), areMissing: false };
  }
  const wrong = files.filter(({ sha256, sizeBytes }) => sizes.get(pathOfFile("", sha256)) !== sizeBytes);
  const areMissing = wrong.length > 0;
  const result = areMissing
    ? fail(
        `missing or cut short in ${place}, as this host sees it: ${wrong.length} of ${files.length}`,
        config.modelsBucket
          ? "`claviger models verify` names them; run `claviger models move --to s3` on a host that has them, or add them " +
              "again or restore them"
          : "`claviger models verify` names them; add them again or restore them; with several hosts, see `claviger guide models`",
      )
    : ok(files.length === 0 ? "none are hosted here" : `${files.length}, all there`);
  return { result, areMissing };
}
