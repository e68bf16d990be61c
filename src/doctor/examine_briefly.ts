import { backupCheck } from "./examine_backup.ts";
import { examineDisk } from "./examine_host.ts";
import { modelFilesCheck } from "./examine_model_files.ts";
import { rateLimitsCheck } from "./examine_rate_limits.ts";
import { examineServer, type ServerContext } from "./examine_server.ts";
import { examine, type Finding } from "./finding.ts";

/**
 * Examines the disk, the database server, the schema, the model files, the rate limits and the last backup. The running
 * service can do this without further rights, and without requests to other hosts but that of the bucket.
 */
export async function examineBriefly(context: ServerContext): Promise<Finding[]> {
  const disk = await examine(context, [{ name: "disk", examine: examineDisk }]);
  const server = await examineServer(context);
  return [...disk, ...server, ...(await examine(context, [modelFilesCheck, rateLimitsCheck, backupCheck]))];
}
