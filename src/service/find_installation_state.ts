import { hostname } from "node:os";
import { findLastBackup } from "../installation/backup/mod.ts";
import type { Config } from "../installation/config/mod.ts";
import { examine, modelFilesCheck } from "../installation/doctor/mod.ts";
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
  const [backup, [files]] = await Promise.all([
    findLastBackup(database, { now: clock.now(), overdueHours }),
    examine({ database, config }, [modelFilesCheck]),
  ]);
  const isKnown = files?.state === "ok" || files?.state === "fail";
  return {
    host,
    certificateEndsAt: certificateExpiresAt(),
    backup,
    wrongModelFiles: isKnown ? (files.state === "fail" ? files.message : null) : undefined,
    modelsPlace: config.modelsBucket?.url ?? `${modelsFolderOf(config)} of ${host}`,
  };
}
