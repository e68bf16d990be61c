import { isInstallationAccepted } from "./_admit.ts";
import { installationOf } from "./format.ts";
import { countSavedKeys, type FoundBackup, findUnknown, listBackups } from "./list_backups.ts";

/** A backup with keys that may be of this installation, from before its data was lost. */
interface EarlierKeys extends FoundBackup {
  /** Undefined if a backup of an earlier format does not tell. */
  readonly count: number | undefined;
}

/**
 * Looks in a folder for a backup with keys, on behalf of a database that has none and may have lost them. Looks into the newest
 * backup of this installation; then into the newest one of other installations, unless an operator has accepted that they share
 * the folder. `earlier` is the first of the two that has keys; undefined if neither has. `unknown` is a backup that may have
 * keys, if none can be read. Throws the errors of the file system.
 */
export async function findEarlierKeys(
  folder: string,
  installation: string | null,
): Promise<{
  readonly earlier?: EarlierKeys;
  readonly unknown?: { readonly name: string; readonly why: string };
}> {
  const listed = await listBackups(folder);
  const { found } = listed;
  const isOwn = ({ head }: FoundBackup) => installation !== null && installationOf(head) === installation;
  const shares = await isInstallationAccepted(folder, installation);
  const unknown = shares ? undefined : findUnknown(listed);
  if (unknown !== undefined) return { unknown };
  const others = shares ? [] : found.filter((each) => !isOwn(each));
  for (const newest of [found.findLast(isOwn), others.at(-1)]) {
    if (newest === undefined) continue;
    const count = await countSavedKeys(folder, newest);
    if (count !== 0) return { earlier: { ...newest, count } };
  }
  return {};
}
