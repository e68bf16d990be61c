import { examineDisk } from "./examine_host.ts";
import { examineServer, type ServerContext } from "./examine_server.ts";
import { examine, type Finding } from "./finding.ts";

/**
 * Examines the disk, the database server and the schema. The running service can do this without requests to other
 * hosts and without further rights.
 */
export async function examineBriefly(context: ServerContext): Promise<Finding[]> {
  const disk = await examine(context, [{ name: "disk", examine: examineDisk }]);
  return [...disk, ...(await examineServer(context))];
}
