/** Tests the completion of the command line in each shell that this machine has. */
import { beforeAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { until } from "../support/until.ts";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine();

/** The line by which a new shell completes `claviger` with the script in a file, where a package or a person put it. */
const SETUP: Readonly<Record<string, (folder: string) => string>> = {
  bash: (folder) => `source ${folder}/completion.bash`,
  zsh: (folder) => `fpath=(${folder} $fpath); autoload -Uz compinit; compinit -u -D`,
  fish: (folder) => `source ${folder}/completion.fish`,
};

/** How a new shell starts without the files of its user. */
const QUIET: Readonly<Record<string, readonly string[]>> = {
  bash: ["--norc", "-i"],
  zsh: ["-f", "-i"],
  fish: ["--no-config", "-i"],
};

/**
 * For each shell a script that loads the completion `$1` and prints the candidates of the command line
 * `$2`, one per line.
 */
const ASK: Readonly<Record<string, string>> = {
  bash: `source "$1"; COMP_LINE=$2; read -ra COMP_WORDS <<< "$2"
    case $2 in *' ') COMP_WORDS+=('') ;; esac
    COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _claviger; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // zsh itself leaves out candidates that do not match; see below.
  zsh: `compdef() { }; compadd() { shift; print -l -- "$@" }; _files() { print -l -- "\${words[CURRENT]}"*(N) }
    source "$1"; words=(\${=2}); [[ $2 = *' ' ]] && words+=(''); CURRENT=\${#words}; _claviger`,
  fish: `source $argv[1]; complete -C "$argv[2]" | string split -f1 \\t`,
};

for (const shell of Object.keys(ASK)) {
  const isThere = Bun.which(shell) !== null;
  if (!isThere) console.warn(`No ${shell} on this machine: its completion is not tried`);
  describe.skipIf(!isThere)(`claviger completion ${shell}`, () => {
    let script: string;
    beforeAll(async () => {
      const { out, status } = await line.run(["completion", shell]);
      expect(status).toBe(0);
      script = line.write(shell === "zsh" ? "_claviger" : `completion.${shell}`, out);
    });

    function complete(typed: string): string[] {
      const args =
        shell === "fish"
          ? ["-c", ASK.fish ?? "", script, typed]
          : ["-c", ASK[shell] ?? "", shell, script, typed];
      const { stdout, stderr } = spawnSync(shell, args, {
        encoding: "utf8",
        cwd: line.folder,
        env: { PATH: process.env.PATH ?? "", HOME: join(line.folder) },
      });
      expect(stderr).toBe("");
      const word = typed.slice(typed.lastIndexOf(" ") + 1);
      return stdout
        .split("\n")
        .filter((each) => each !== "" && (shell !== "zsh" || each.startsWith(word)))
        .toSorted();
    }

    const cases: readonly [typed: string, candidates: readonly string[]][] = [
      ["claviger ke", ["keys"]],
      ["claviger keys is", ["issue"]],
      ["claviger keys issue --ti", ["--tier"]],
      ["claviger keys issue --mode ", ["live", "test"]],
      ["claviger keys issue --email ada@example.org --mode t", ["test"]],
      ["claviger keys list --state s", ["suspended"]],
      ["claviger guide back", ["backups"]],
      ["claviger guide CLAVIGER_PO", ["CLAVIGER_PORT", "CLAVIGER_POSTGRES_BIN"]],
      ["claviger completion z", ["zsh"]],
      ["claviger help keys is", ["issue"]],
      ["claviger help ke", ["keys"]],
      ["claviger help keys issue ", []],
      ["claviger keys tier fr", []],
      ["claviger keys tier key_1 fr", ["free"]],
      ["claviger keys tier --reason moved key_1 r", ["research"]],
      ["claviger keys tier key_1 free r", []],
      ["claviger guide backups back", []],
      ["claviger keys revoke k", []],
      ["claviger keys issue --email k", []],
    ];
    for (const [typed, candidates] of cases) {
      test(`completes \`${typed}\``, () => {
        expect(complete(typed)).toEqual([...candidates]);
      });
    }

    test("completes from the first Tab of a new shell, with a blank after each word, next to a folder of the same name", async () => {
      mkdirSync(join(line.folder, "keys"), { recursive: true });
      // The terminal repeats what was typed, so the command prints how many words it got. For the same reason `ready`
      // is typed with quotes in it.
      const echo =
        shell === "fish"
          ? "function claviger; echo (count $argv): $argv; end"
          : `claviger() { echo "$#: $*"; }`;
      const { typed, seen, close } = startShell(shell, line.folder);
      try {
        typed(`${SETUP[shell]?.(line.folder)}; ${echo}; echo rea''dy\r`);
        await seen("ready");
        typed("claviger ke\tis\t--ti\tr\t\r");
        await seen("4: keys issue --tier research");
        typed("claviger keys tier --reason=moved key_1 r\t\r");
        await seen("5: keys tier --reason=moved key_1 research");
      } finally {
        close();
      }
    });

    test("completes files where a file is read", () => {
      line.write("customers.csv", "");
      expect(complete("claviger keys import cu")).toEqual(["customers.csv"]);
      line.write("two words.csv", "");
      const [shown] = complete("claviger keys import two");
      expect(shown?.replace("\\", "")).toBe("two words.csv");
    });
  });
}

/** Starts a shell on a terminal of its own. */
function startShell(shell: string, folder: string) {
  let shown = "";
  const running = Bun.spawn([shell, ...(QUIET[shell] ?? [])], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", HOME: folder, TERM: "dumb", LANG: "C.UTF-8" },
    terminal: {
      cols: 200,
      rows: 50,
      data: (_, bytes) => {
        shown += new TextDecoder().decode(bytes);
      },
    },
  });
  return {
    typed: (text: string) => running.terminal?.write(text),
    seen: (text: string) => until(() => shown.includes(text)),
    close() {
      running.kill("SIGKILL");
      running.terminal?.close();
    },
  };
}
