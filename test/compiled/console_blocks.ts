/**
 * Reads and runs the `console` blocks of a page: commands after `$` (continued after `>`), each with its expected output
 * below it. The commands run in order in one shell; values that differ each time are masked before the comparison.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface ConsoleStep {
  readonly command: string;
  readonly output: string;
}

export const readme = readFileSync(join(import.meta.dir, "../../README.md"), "utf8");

export function readConsoleSteps(markdown: string): ConsoleStep[] {
  const steps: { command: string; output: string }[] = [];
  for (const [, block = ""] of markdown.matchAll(/^```console\n(.*?)^```$/gms)) {
    for (const line of block.split("\n").slice(0, -1)) {
      const step = steps.at(-1);
      if (line.startsWith("$ ")) steps.push({ command: line.slice(2), output: "" });
      else if (step === undefined) throw new Error(`A console block begins with ${line}`);
      else if (line.startsWith("> ") && step.output === "") step.command += `\n${line.slice(2)}`;
      else step.output += `${line}\n`;
    }
  }
  return steps;
}

/**
 * Replaces values that differ each time by fixed words: identifiers, keys, times, and values that depend on the machine
 * (folders, free space, durations). Also removes the column widths that follow from them.
 */
export function mask(output: string): string {
  return (
    output
      // CSV and HTTP end their lines with CR LF, which no page shows.
      .replaceAll("\r\n", "\n")
      .replaceAll(/"next":"[^"]*"/g, '"next":"CURSOR"')
      .replaceAll(/"cursor":"[^"]*"/g, '"cursor":"CURSOR"')
      .replaceAll(/"download_url":"[^"]*"/g, '"download_url":"LINK"')
      .replaceAll(/"license":"[^"]*"/g, '"license":"JWS"')
      .replaceAll(/(?<![\w-])[\w-]{43}(?![\w-])/g, "KID")
      .replaceAll(/(?<![\w-])[\w-]{8}…/g, "KID…")
      .replaceAll(/\b(usr|key|lic|evt|req|aud)_[0-9a-f]{32}\b/g, "$1_ID")
      .replaceAll(/\b(svc_(?:live|test|op)_)[0-9a-f]{48}\b/g, "$1KEY")
      .replaceAll(/(?<=#|^code +)[0-9a-f]{32}$/gm, "CODE")
      .replaceAll(/\b(svc_(?:live|test)_)[0-9a-f]{4}…[0-9a-f]{4}\b/g, "$1HINT")
      .replaceAll(/(…)[0-9a-f]{4}\b/g, "$1HINT")
      .replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)/g, "TIME")
      .replaceAll(/\b\d{4}-\d\d-\d\d \d\d:\d\d UTC\b/g, "TIME")
      .replaceAll(/\bclaviger-\d{4}-\d\d-\d\dT\d{6}Z\b/g, "claviger-TIME")
      .replaceAll(/(?<=\binstallation )[0-9a-f]{8}\b|\b[0-9a-f]{8}(?= +claviger-TIME)/g, "INSTALLATION")
      .replaceAll(/\b\d{4}-\d\d-\d\d\b/g, "DAY")
      .replaceAll(/\b20\d\d-\d\d\b/g, "MONTH")
      .replaceAll(/(?:\/[\w.-]+)+\/(claviger-data|rehearsal|backups)\b/g, "FOLDER/$1")
      .replaceAll(/\b\d+ [GM]B free\b/g, "SPACE free")
      .replaceAll(/^(commit +)(?:[0-9a-f]{12}(?: and changes)?|unknown)$/gm, "$1COMMIT")
      // A backup may have a row more or less, and its size depends on the compressor.
      .replaceAll(/\b[\d,]+ rows of \d+ tables\b/g, "ROWS of TABLES")
      .replaceAll(/\((?:[\d.]+ [kMG]?B, )?[\d.]+ s\)/g, "(TIME)")
      .replaceAll(/127\.0\.0\.1:\d+/g, "ADDRESS")
      .replaceAll(/\bcommand:\S+/g, "command:USER")
      .replaceAll(/ {2,}/g, "  ")
      .trimEnd()
  );
}

/** Runs the steps in one `sh`, in a folder that contains the executable, and returns the output of each. */
export async function runConsoleSteps(
  steps: readonly ConsoleStep[],
  options: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    /** In place of `127.0.0.1:8080`. */
    readonly address: string;
    /** In place of `127.0.0.1:8081`. */
    readonly adminAddress?: string;
  },
): Promise<string[]> {
  const mark = "@@ next step @@";
  const script = steps.map(({ command }) => {
    const { address, adminAddress = "127.0.0.1:8081" } = options;
    const addressed = command
      .replaceAll("127.0.0.1:8080", address)
      .replaceAll("127.0.0.1:8081", adminAddress);
    // A program's output may end without a newline.
    return `${addressed}\nprintf '\\n%s\\n' '${mark}'`;
  });
  const shell = Bun.spawn(["sh", "-c", `exec 2>&1\n${script.join("\n")}`], {
    cwd: options.cwd,
    env: options.env,
    stdout: "pipe",
    stderr: "inherit",
  });
  const output = await new Response(shell.stdout).text();
  await shell.exited;
  return output.split(`\n${mark}\n`).slice(0, -1);
}
