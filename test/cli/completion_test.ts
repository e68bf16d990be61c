/** Tests the completion of the command line in each shell that this machine has. */
import { beforeAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine();

/**
 * For each shell a script that loads the completion `$1` and prints the candidates of the command line
 * `$2`, one per line.
 */
const ASK: Readonly<Record<string, string>> = {
  bash: `source "$1"; COMP_LINE=$2; read -ra COMP_WORDS <<< "$2"
    case $2 in *' ') COMP_WORDS+=('') ;; esac
    COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _claviger; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // zsh calls a function of bash like this, with the rules of sh. zsh itself leaves out candidates that do not match; see below.
  zsh: `compdef() { }; source "$1"; words=(\${=2}); [[ $2 = *' ' ]] && words+=('')
    COMP_WORDS=("\${words[@]}"); COMP_CWORD=$((\${#words} - 1))
    ask() { emulate -L sh; setopt kshglob noshglob braceexpand; _claviger }; ask; printf '%s\\n' "\${COMPREPLY[@]}"`,
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
      script = line.write(`completion.${shell}`, out);
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

    test("completes files where a file is read", () => {
      line.write("keys.csv", "");
      expect(complete("claviger keys import keys")).toEqual(["keys.csv"]);
      line.write("two words.csv", "");
      const [shown] = complete("claviger keys import two");
      expect(shown?.replace("\\", "")).toBe("two words.csv");
    });
  });
}
