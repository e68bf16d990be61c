/**
 * Writes scripts that complete the command line in a shell, from the definitions of the commands.
 *
 * A script holds commands, options, choices, pages and the names of settings. It never asks the database, so it
 * cannot show a key or an id.
 */
import type { Command, Option } from "commander";
import { SETTINGS } from "../config/mod.ts";
import { PAGES } from "./guide/pages.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** Returns the completion script of a shell. */
export function renderCompletion(program: Command, shell: Shell): string {
  const commands = commandsOf(program, []);
  return RENDERERS[shell](commands);
}

interface Completed {
  /** The words of the command after `claviger`; none for the program itself. */
  readonly words: readonly string[];
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly CompletedOption[];
  /** The values that the command's argument may have; undefined if the argument is a file. */
  readonly values: readonly string[] | undefined;
}

interface CompletedOption {
  readonly name: string;
  readonly description: string;
  /** The option's value: one of these choices, a file, any text, or none. */
  readonly value: readonly string[] | "file" | "text" | "none";
}

function commandsOf(command: Command, words: readonly string[]): Completed[] {
  const visible = command.createHelp().visibleCommands(command);
  const own: Completed = {
    words,
    subcommands: visible.map((child) => ({ name: child.name(), description: child.description() })),
    options: command
      .createHelp()
      .visibleOptions(command)
      .map((option) => ({
        name: option.long ?? "",
        description: option.description,
        value: followingOf(option),
      })),
    values: valuesOf(command, visible),
  };
  return [own, ...visible.flatMap((child) => commandsOf(child, [...words, child.name()]))];
}

function followingOf({ argChoices, required, optional, flags }: Option): CompletedOption["value"] {
  if (argChoices !== undefined) return argChoices;
  if (!(required || optional)) return "none";
  return /<(?:file|dir|folder|path)>/i.test(flags) ? "file" : "text";
}

function valuesOf(command: Command, subcommands: readonly Command[]): readonly string[] | undefined {
  if (subcommands.length > 0) return subcommands.map((child) => child.name());
  const [argument] = command.registeredArguments;
  if (argument === undefined) return [];
  if (argument.name() === "page") return [...PAGES, ...SETTINGS].map(({ name }) => name);
  return argument.argChoices ?? (argument.name() === "file" ? undefined : []);
}

const RENDERERS: Readonly<Record<Shell, (commands: readonly Completed[]) => string>> = {
  bash: renderBash,
  zsh: (commands) =>
    `#compdef claviger\nautoload -U +X bashcompinit && bashcompinit\n${renderBash(commands)}`,
  fish: renderFish,
};

/** The script finds the command from the words without options and their values. A `case` then has its candidates. */
function renderBash(commands: readonly Completed[]): string {
  const cases = commands.map(({ words, options, values }) => {
    const valued = options.flatMap(({ name, value }) =>
      typeof value === "string" ? [] : [`      ${name}) words=${quote(value.join(" "))}; options= ;;`],
    );
    const files = options.filter(({ value }) => value === "file").map(({ name }) => name);
    const texts = options.filter(({ value }) => value === "text").map(({ name }) => name);
    if (files.length > 0) valued.push(`      ${files.join("|")}) files=1; words=; options= ;;`);
    if (texts.length > 0) valued.push(`      ${texts.join("|")}) words=; options= ;;`);
    const fileArguments = values === undefined ? " files=1;" : "";
    return [
      `    ${quote(words.join(" "))})`,
      `      words=${quote((values ?? []).join(" "))};${fileArguments} options=${quote(options.map(({ name }) => name).join(" "))}`,
      ...(valued.length > 0 ? [`      case $before in`, ...valued, "      esac"] : []),
      "      ;;",
    ].join("\n");
  });
  return `# Completion of claviger. In bash: source <(claviger completion bash)
_claviger() {
  local word before= command= words= options= files= skip= index
  local current=\${COMP_WORDS[COMP_CWORD]}
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    if [ -n "$skip" ]; then skip=; continue; fi
    case $word in
      ${optionsWithValue(commands).join("|")}) skip=1 ;;
      -*) ;;
      *)
        case "$command" in
          ${groupsOf(commands).join("|")}) command="\${command:+$command }$word" ;;
        esac
        ;;
    esac
  done
  [ -n "$skip" ] && before=\${COMP_WORDS[COMP_CWORD-1]}
  case "$command" in
${cases.join("\n")}
  esac
  case $current in -*) words=$options ;; esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  local IFS=$'\\n'
  if [ -n "$files" ]; then COMPREPLY+=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _claviger claviger
`;
}

function renderFish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ words, subcommands, options, values }) => {
    const here = `-n "__claviger_is ${words.join(" ")}"`;
    const isLeaf = subcommands.length === 0;
    return [
      ...subcommands.map(
        ({ name, description }) => `complete -c claviger -f ${here} -a ${name} -d ${quote(description)}`,
      ),
      ...(isLeaf && values !== undefined
        ? [`complete -c claviger -f ${here} -a ${quote(values.join(" "))}`]
        : []),
      ...(isLeaf && values === undefined ? [`complete -c claviger -F ${here}`] : []),
      ...options.map(({ name, description, value }) => {
        const follows = { file: " -r -F", text: " -x", none: " -f" } as const;
        const ending = typeof value === "string" ? follows[value] : ` -x -a ${quote(value.join(" "))}`;
        return `complete -c claviger ${here} -l ${name.replace(/^--/, "")} -d ${quote(description)}${ending}`;
      }),
    ];
  });
  return `# Completion of claviger. In fish: claviger completion fish | source
function __claviger_is
  set -l command
  set -l skip
  for word in (commandline -opc)[2..]
    if test -n "$skip"
      set skip
      continue
    end
    switch $word
      case ${optionsWithValue(commands).join(" ")}
        set skip 1
      case '-*'
      case '*'
        if contains -- "$command" ${groupsOf(commands).join(" ")}
          set command (string trim "$command $word")
        end
    end
  end
  test "$command" = "$argv"
end
${lines.join("\n")}
`;
}

/** Returns every option that is followed by a value: the scripts skip that word when they look for the command. */
function optionsWithValue(commands: readonly Completed[]): string[] {
  const names = commands.flatMap(({ options }) =>
    options.filter(({ value }) => value !== "none").map(({ name }) => name),
  );
  return [...new Set(names)];
}

/** Returns the quoted names of the commands that have commands below them. */
function groupsOf(commands: readonly Completed[]): string[] {
  return commands
    .filter(({ subcommands }) => subcommands.length > 0)
    .map(({ words }) => quote(words.join(" ")));
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
