/** A folder of backups, and an installation whose database and model files go into it. */
import { beforeAll, beforeEach } from "bun:test";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bunPlatform } from "../../../src/base/platform/bun/mod.ts";
import type { Refusal } from "../../../src/base/refusal.ts";
import { migrations } from "../../../src/database/mod.ts";
import {
  addBackup,
  type FolderBackup,
  type FolderOptions,
  KEEP_RULE,
  verifyBackup,
} from "../../../src/installation/backup/mod.ts";
import { modelsFolderOf, pathOfFile } from "../../../src/models/mod.ts";
import { createExternalDatabase } from "../../support/external_database.ts";
import { orThrow } from "../../support/issue.ts";
import { TEST_SECRET } from "../../support/secrets.ts";
import { useForAll } from "../../support/use.ts";
import { useFolder } from "../../support/use_folder.ts";
import { fill, MODEL_BYTES, watch } from "./backup_kit.ts";

export const HOUR_MS = 3_600_000;
export const START = new Date("2026-11-27T03:00:05Z");
/** The SHA-256 of the model file that the filled database names. */
export const FIRST = createHash("sha256").update(MODEL_BYTES).digest("hex");

export interface AddOptions extends Partial<Omit<FolderOptions, "keep">> {
  /** Hours after {@linkcode START}. */
  readonly hours?: number;
  readonly keep?: string;
  readonly now?: Date;
}

/** Returns the name of a backup at that hour of the day of {@linkcode START}. */
export const nameAt = (hour: number) => `claviger-2026-11-27T${String(hour).padStart(2, "0")}0005Z.tar.zst`;

/** Makes the installation before the tests of a file, and a new folder of backups, `folder`, before each test. */
export function useBackupFolder() {
  const place = useFolder();
  const dataDir = join(place, "data");
  const models = modelsFolderOf({ dataDir });
  const source = useForAll(createExternalDatabase);

  function putModel(sha256: string, bytes: Buffer): void {
    mkdirSync(join(models, sha256.slice(0, 2)), { recursive: true });
    writeFileSync(pathOfFile(models, sha256), bytes);
  }

  function addFrom(
    { address }: Pick<typeof source, "address">,
    { hours = 0, keep, now, ...options }: AddOptions = {},
  ): Promise<FolderBackup | Refusal> {
    return addBackup(address, {
      folder: kit.folder,
      models: { dataDir },
      keep: keep === undefined ? undefined : KEEP_RULE.parse(keep),
      lock: bunPlatform.lockOpenFile,
      tryLock: bunPlatform.tryLock,
      migrations,
      version: "0.4.0",
      brand: "svc",
      clock: { now: () => now ?? new Date(START.getTime() + hours * HOUR_MS) },
      secret: TEST_SECRET,
      watch,
      ...options,
    });
  }

  const tryAdd = (options?: AddOptions) => addFrom(source, options);

  const listed = () =>
    readdirSync(kit.folder)
      .filter((name) => !["models", ".lock"].includes(name))
      .toSorted();

  const kit = {
    place,
    dataDir,
    /** The folder of the installation's model files. */
    models,
    source,
    folder: "",
    putModel,
    /** Adds the bytes of a model to the registry and to the data folder. */
    async addModel(name: string, bytes: Buffer): Promise<string> {
      const sha256 = createHash("sha256").update(bytes).digest("hex");
      putModel(sha256, bytes);
      await source.database.query(
        (sql) => sql`
          with model as (
            insert into models (id, name, listed_version, created_at)
            values (gen_random_uuid(), ${name}, '1', now())
            returning id
          ),
          file as (
            insert into model_files (sha256, size_bytes, created_at)
            values (${sha256}, ${bytes.length}::bigint, now()) returning sha256
          )
          insert into model_versions (id, model_id, version, type, paradigm, n_features, n_classes, size_mb, checksum,
                                      file, requires_license, metadata, created_at)
          select gen_random_uuid(), model.id, '1', 'SvcLDA', 'p300', 8, 2, 0.1, sha256, sha256, 'free', '{}', now()
            from model, file`,
      );
      return sha256;
    },
    /** Forgets a model, as `models retire` and a later `models purge` do. */
    async forgetModel(sha256: string): Promise<void> {
      await source.database.query(
        (sql) => sql`update model_versions set file = null, retired_at = now() where file = ${sha256}`,
      );
      await source.database.query((sql) => sql`delete from model_files where sha256 = ${sha256}`);
      rmSync(pathOfFile(models, sha256), { force: true, recursive: true });
    },
    /** Adds a backup of another database. */
    addFrom,
    tryAdd,
    async add(options?: AddOptions): Promise<FolderBackup> {
      return orThrow(await tryAdd(options));
    },
    /** Lists the files of the folder beside the model files. */
    listed,
    /** Lists the model files of the folder. */
    kept: () =>
      readdirSync(join(kit.folder, "models"), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ name }) => name)
        .toSorted(),
    /** Reads every backup of the folder to its end, and the model files beside it. */
    async expectWhole(): Promise<void> {
      for (const name of listed()) await proveBeside(join(kit.folder, name));
    },
    /** Returns the path of a model file in the folder of backups. */
    inFolder: (sha256: string) => pathOfFile(join(kit.folder, "models"), sha256),
  };

  beforeAll(async () => {
    await fill(source.database);
    // Long texts would only make the test slower.
    await source.database.query((sql) => sql`delete from events where length(model_name) > 1000`);
    putModel(FIRST, MODEL_BYTES);
  });
  beforeEach(() => {
    kit.folder = mkdtempSync(join(place, "backups-"));
  });
  return kit;
}

/** Verifies a backup with the model files beside it; throws if it is damaged. */
export async function proveBeside(path: string) {
  return orThrow(await verifyBackup(path, { ...watch, besideFolder: join(dirname(path), "models") }));
}
