import { hostname } from "node:os";
import { findLastBackup } from "../installation/backup/mod.ts";
import type { Config } from "../installation/config/mod.ts";
import { findWrongModelFiles } from "../installation/doctor/mod.ts";
import { modelsFolderOf } from "../models/mod.ts";
import type { InstallationState, NoticeContext } from "../notices/mod.ts";

interface StateOptions {
  readonly config: Config;
  readonly certificateExpiresAt: () => Date | undefined;
}

/** Finds the state of the installation for its notices, by the rules of doctor and Health. */
export async function findInstallationState(
  { database, clock }: NoticeContext,
  { config, certificateExpiresAt }: StateOptions,
): Promise<InstallationState> {
  const host = hostname();
  const overdueHours = config.backupOverdueHours;
  const [backup, wrongModelFiles] = await Promise.all([
    findLastBackup(database, { now: clock.now(), overdueHours }),
    findWrongModelFiles({ database, config }),
  ]);
  return {
    host,
    certificateEndsAt: certificateExpiresAt(),
    backup,
    wrongModelFiles,
    modelsPlace: config.modelsBucket?.url ?? `${modelsFolderOf(config)} of ${host}`,
  };
}
