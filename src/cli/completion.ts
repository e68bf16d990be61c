/**
 * Writes scripts that complete the command line in a shell, from the definitions of the commands.
 *
 * A script holds commands, options, choices, pages and the names of settings. It never asks the database, so it
 * cannot show a key or an id.
 */
import type { Argument, Command, Option } from "commander";
import { SETTINGS } from "../installation/config/mod.ts";
import { PAGES } from "./guide/pages.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

/** Returns the completion script of a shell. */
export function renderCompletion(program: Command, shell: Shell): string {
  const commands = commandsOf(program, []);
  const helped = commands.filter(({ words }) => words.at(-1) !== "help");
  return RENDERERS[shell]([...helped, ...helped.map(toHelp)]);
}

interface Completed {
  /** The words of the command after `claviger`; none for the program itself. */
  readonly words: readonly string[];
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly CompletedOption[];
  /** For each of the command's arguments the values that it may have, none if they are not known, or a file. */
  readonly arguments: readonly (readonly string[] | "file")[];
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
    arguments:
      visible.length > 0 ? [visible.map((child) => child.name())] : command.registeredArguments.map(valuesOf),
  };
  return [own, ...visible.flatMap((child) => commandsOf(child, [...words, child.name()]))];
}

/** Returns what completes `help` before the words of a command. */
function toHelp({ words, subcommands }: Completed): Completed {
  const named = subcommands.filter(({ name }) => name !== "help");
  return {
    words: ["help", ...words],
    subcommands: named,
    options: [],
    arguments: [named.map(({ name }) => name)],
  };
}

function followingOf({ argChoices, required, optional, flags }: Option): CompletedOption["value"] {
  if (argChoices !== undefined) return argChoices;
  if (!(required || optional)) return "none";
  return /<(?:file|dir|folder|path)>/i.test(flags) ? "file" : "text";
}

function valuesOf(argument: Argument): readonly string[] | "file" {
  if (argument.name() === "page") return [...PAGES, ...SETTINGS].map(({ name }) => name);
  return argument.argChoices ?? (argument.name() === "file" ? "file" : []);
}

const RENDERERS: Readonly<Record<Shell, (commands: readonly Completed[]) => string>> = {
  bash: renderBash,
  zsh: renderZsh,
  fish: renderFish,
};

/**
 * bash splits words at `=`: the function gets `--tier=free` as three words. Only files are marked as files: otherwise,
 * next to a folder `keys`, bash would complete the command to `keys/`.
 */
function renderBash(commands: readonly Completed[]): string {
  return `# Completion of claviger. In bash: source <(claviger completion bash)
${renderFind(commands)}
_claviger() {
  local candidates= files= current=\${COMP_WORDS[COMP_CWORD]}
  if [ "$current" = = ]; then current=; fi
  _claviger_find "$current" "\${COMP_WORDS[@]:1:COMP_CWORD-1}"
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
  local IFS=$'\\n'
  if [ -n "$files" ]; then
    compopt -o filenames 2> /dev/null
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}
complete -F _claviger claviger
`;
}

/** zsh runs the whole file as the function `_claviger` at the first Tab of a shell, so its last line must complete. */
function renderZsh(commands: readonly Completed[]): string {
  return `#compdef claviger
# Completion of claviger. In zsh, after compinit: source <(claviger completion zsh)
${renderFind(commands)}
_claviger() {
  local candidates= files=
  _claviger_find "\${words[CURRENT]}" "\${(@)words[2,CURRENT-1]}"
  if [ -n "$files" ]; then _files; fi
  compadd -- \${=candidates}
}
if [ "\${funcstack[1]}" = _claviger ]; then _claviger; else compdef _claviger claviger; fi
`;
}

/**
 * Renders a function for bash and zsh. It finds the command from the words without options and their values. A `case`
 * then has its candidates: after an option, or for an argument by the number of arguments before it.
 */
function renderFind(commands: readonly Completed[]): string {
  const cases = commands.map(({ words, options, arguments: given }) => {
    const places = [
      ...given.map((values, index) => ({ place: String(index), values })),
      ...options.map(({ name, value }) => ({ place: name, values: value })),
    ].flatMap(({ place, values }) => {
      if (values === "file") return [`        ${place}) files=1 ;;`];
      return typeof values === "string" || values.length === 0
        ? []
        : [`        ${place}) candidates=${quote(values.join(" "))} ;;`];
    });
    return [
      `    ${quote(words.join(" "))})`,
      `      flags=${quote(options.map(({ name }) => name).join(" "))}`,
      ...(places.length > 0 ? [`      case \${before:-$given} in`, ...places, "      esac"] : []),
      "      ;;",
    ].join("\n");
  });
  return `# Gets the current word and the words before it. Sets candidates, and files if a file may follow.
_claviger_find() {
  local current=$1 word= before= command= given=0 flags=
  shift
  for word in "$@"; do
    if [ -n "$before" ]; then
      if [ "$word" != = ]; then before=; fi
      continue
    fi
    case $word in
      ${optionsWithValue(commands).join("|")}) before=$word ;;
      -*) ;;
      *)
        case "$command" in
          ${groupsOf(commands).join("|")}) command="\${command:+$command }$word" ;;
          *) given=$((given + 1)) ;;
        esac
        ;;
    esac
  done
  case "$command" in
${cases.join("\n")}
  esac
  case $current in -*) [ -n "$before" ] || candidates=$flags ;; esac
}`;
}

function renderFish(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ words, subcommands, options, arguments: given }) => {
    const at = (...place: string[]) => `-n "__claviger_is ${[...words, ...place].join(" ")}"`;
    const children = subcommands.map(
      ({ name, description }) => `complete -c claviger -f ${at()} -a ${name} -d ${quote(description)}`,
    );
    const values = given.map((each, index) =>
      each === "file"
        ? `complete -c claviger -F ${at(`@${index}`)}`
        : `complete -c claviger -f ${at(`@${index}`)} -a ${quote(each.join(" "))}`,
    );
    return [
      ...(children.length > 0 ? children : [`complete -c claviger -f ${at()}`, ...values]),
      ...options.map(({ name, description, value }) => {
        const follows = { file: " -r -F", text: " -x", none: " -f" } as const;
        const ending = typeof value === "string" ? follows[value] : ` -x -a ${quote(value.join(" "))}`;
        return `complete -c claviger ${at()} -l ${name.replace(/^--/, "")} -d ${quote(description)}${ending}`;
      }),
    ];
  });
  return `# Completion of claviger. In fish: claviger completion fish | source
# Tells whether the words are the command, or the command and @ with the number of its arguments so far.
function __claviger_is
  set -l command
  set -l given 0
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
        else
          set given (math $given + 1)
        end
    end
  end
  contains -- "$argv" "$command" "$command @$given"
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
