import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly text: string;
  /**
   * True for a migration that takes long while other processes write: it is not one transaction. An empty line
   * ends each statement, and all of them can be repeated after an interruption.
   */
  readonly isConcurrent?: boolean;
  /**
   * The newest migration that a program must know to run on this schema. A line of the file says it: `-- runs with 26`.
   * Absent if only programs that know this migration may run on it.
   */
  readonly oldestProgram?: number;
}

/**
 * Reads the files of `sql/`, in order. Called only as a macro: Bun calls it when it bundles the program, or loads it from
 * source, and puts the result in place of the call. So the program contains the files.
 */
export function readMigrations(folder = join(import.meta.dirname, "../../sql")): Migration[] {
  const files = readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .sort();
  return files.map((file) => {
    const text = readFileSync(join(folder, file), "utf8");
    // PostgreSQL refuses these statements in a transaction.
    const isConcurrent = /^(create|drop|reindex) .*\bconcurrently\b/m.test(text);
    const [, oldest] = /^-- runs with (\d+)$/m.exec(text) ?? [];
    return {
      ...{ number: Number.parseInt(file, 10), name: file.slice(0, -".sql".length), text, isConcurrent },
      ...(oldest !== undefined && { oldestProgram: Number(oldest) }),
    };
  });
}
