/** Reads the small files that settings name. */
import { isForeignPath } from "../../base/host/mod.ts";
import { readNamedFile, readRegularFile } from "../../base/read_regular_file.ts";
import { FILE_REASONS, hasCode, type Reasons, reasonOf } from "../../base/system_error.ts";
import { SettingError } from "./setting_error.ts";

export class UnreadableFile extends SettingError {}

const FILE_LIMIT_BYTES = 64 * 1024;

/** Reads a small file as text; refuses a file above `limitBytes`. `what` names the file in the refusal. */
export function readBounded(path: string, what: string, limitBytes = FILE_LIMIT_BYTES): string {
  try {
    // A pipe is allowed (`<(…)`), except where another user could have placed it: root could wait for ever.
    return (isForeignPath(path) ? readRegularFile : readNamedFile)(path, limitBytes);
  } catch (error) {
    const reasons = { ...REASONS, EFBIG: `it has more than ${limitBytes} bytes` };
    const sentence = `Cannot read ${what}: ${path}: ${reasonOf(error, reasons)}`;
    throw hasCode(error, "EFBIG") ? new SettingError(sentence) : new UnreadableFile(sentence);
  }
}

const REASONS: Reasons = {
  ...FILE_REASONS,
  EACCES:
    "this user may not read it; run the command as the user of the service (`sudo -u claviger claviger …`), and let that " +
    "user read the file (`chgrp claviger FILE; chmod 640 FILE`)",
};
