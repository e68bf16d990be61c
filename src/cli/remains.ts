/** What goes on working when a command ends a key. */
import { parseId } from "../base/ids.ts";
import type { KeySummary } from "../licensing/keys/mod.ts";
import { countTaken } from "../licensing/machines/mod.ts";
import { describeRemains, listFilesOf } from "../licensing/signed_licenses/mod.ts";
import type { DatabaseCall } from "./command.ts";

/** Says which signed licenses stay valid and which places stay taken when the key is ended; empty for none. */
export async function findRemains(
  { database, now }: Pick<DatabaseCall, "database" | "now">,
  key: KeySummary,
): Promise<string> {
  const { maxMachines, licenseId } = key;
  const files = await listFilesOf(database, { keys: [key], now });
  const taken = maxMachines === null ? 0 : await countTaken(database, parseId("lic", licenseId) ?? "");
  return describeRemains({ files, maxMachines, taken });
}
