/** Defines all commands, runs one, and returns its exit status. */
import { Command, CommanderError } from "commander";
import { KEY_DIGITS, KEY_KINDS, redactKeys } from "../base/secrets/mod.ts";
import { VERSION } from "../base/version.ts";
import { findNearest } from "../installation/config/mod.ts";
import { accounts } from "./commands/accounts_commands.ts";
import { activity } from "./commands/activity_command.ts";
import { audit } from "./commands/audit_command.ts";
import { backup } from "./commands/backup_command.ts";
import { bundle } from "./commands/bundle_commands.ts";
import { completion } from "./commands/completion_command.ts";
import { config } from "./commands/config_command.ts";
import { demo } from "./commands/demo_command.ts";
import { doctor } from "./commands/doctor_command.ts";
import { guide } from "./commands/guide_command.ts";
import { health } from "./commands/health_command.ts";
import { installer } from "./commands/installer_commands.ts";
import { keys } from "./commands/keys_commands.ts";
import { licenses } from "./commands/licenses_commands.ts";
import { machines } from "./commands/machines_commands.ts";
import { migration } from "./commands/migrate_command.ts";
import { models } from "./commands/models_commands.ts";
import { notices } from "./commands/notices_commands.ts";
import { operators } from "./commands/operators_commands.ts";
import { restore } from "./commands/restore_command.ts";
import { serve } from "./commands/serve_command.ts";
import { systemd } from "./commands/systemd_command.ts";
import { tiers } from "./commands/tiers_commands.ts";
import { tokens } from "./commands/tokens_commands.ts";
import { usage } from "./commands/usage_commands.ts";
import { version } from "./commands/version_command.ts";
import { REFUSED, SUCCESS, WRONG_USAGE } from "./exit_status.ts";
import { renderFailure } from "./failures.ts";
import type { Invocation } from "./invocation.ts";
import { printFailure } from "./print.ts";
import { CommandRefused, refuseLostOutput } from "./run.ts";

/** All commands, in the order of the help. */
const COMMANDS = [
  serve,
  keys,
  usage,
  activity,
  accounts,
  machines,
  models,
  notices,
  operators,
  tokens,
  demo,
  licenses,
  bundle,
  tiers,
  installer,
  migration,
  audit,
  backup,
  restore,
  config,
  health,
  doctor,
  systemd,
  guide,
  completion,
  version,
];

/** Matches a key or a token of any brand, alone or as an option's value. */
const SECRET_ARGUMENT = new RegExp(`(?:^|=)[a-z][a-z0-9]{0,15}_(${KEY_KINDS})_[0-9a-f]{${KEY_DIGITS}}$`, "i");

const KEY_AS_ARGUMENT =
  "A key must not be an argument, because other users can read arguments: `claviger keys find` reads the key " +
  "from standard input and shows its id; give the other commands the id";
const TOKEN_AS_ARGUMENT =
  "A token must not be an argument, because other users can read arguments: give commands the token's name; " +
  "`claviger tokens list` shows the names, and `claviger tokens renew NAME` gives this token a new secret";

/** Runs one command; resolves with the exit status. If the command fails, it prints one line that says why. */
export async function runCommandLine(args: readonly string[], invocation: Invocation): Promise<number> {
  const secret = args
    .map((argument) => SECRET_ARGUMENT.exec(argument)?.[1])
    .find((kind) => kind !== undefined);
  if (secret !== undefined) {
    printFailure(invocation, secret === "op" ? TOKEN_AS_ARGUMENT : KEY_AS_ARGUMENT);
    return WRONG_USAGE;
  }
  try {
    const program = createProgram({ ...invocation, args });
    if (args[0] === "help") showHelp(program, args.slice(1));
    await program.parseAsync([...args], { from: "user" });
    refuseLostOutput(invocation.outputFault?.());
    return SUCCESS;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? SUCCESS : WRONG_USAGE;
    printFailure(invocation, toLine(renderFailure(error)));
    return error instanceof CommandRefused ? error.status : REFUSED;
  }
}

/** Defines every command with its options. The page `commands` of the manual is made from it. */
export function createProgram(invocation: Invocation): Command {
  const program = new Command("claviger")
    .description("Licensing and model registry: keys, quotas, models and usage events")
    .version(`claviger ${VERSION}`, "--version", "print the version")
    .helpCommand("help [command...]", "show the help of a command")
    // Otherwise `models add --version 2` would print the program's version.
    .enablePositionalOptions()
    .exitOverride();
  for (const define of COMMANDS) define(program, invocation);
  program.on("command:*", ([name = ""]) => refuseUnknown(program, name));
  setOutput(program, invocation, "claviger");
  refuseRepeated(program);
  return program;
}

/** Shows the help of `keys issue` for `help keys issue`: commander's own `help` takes only one name. */
function showHelp(program: Command, names: readonly string[]): never {
  let command: Command = program;
  for (const name of names) {
    if (command.commands.length === 0) break;
    const child = command.commands.find((each) => each.name() === name);
    command = child ?? refuseUnknown(command, name);
  }
  command.help();
}

/** Refuses an unknown command, and suggests the commands of that name in the groups, else a similar name. */
function refuseUnknown(command: Command, name: string): never {
  const inGroups = command.commands
    .filter((group) => group.commands.some((child) => child.name() === name))
    .map((group) => `${group.name()} ${name}`);
  const nearest = findNearest(
    name,
    command.commands.map((child) => child.name()),
  );
  const suggested = inGroups.length > 0 ? inGroups.join(" or ") : nearest;
  command.error(`unknown command '${name}'${suggested === undefined ? "" : ` (did you mean ${suggested}?)`}`);
}

/** Makes each command print an error of usage as one line that names the help to read. */
function setOutput(command: Command, invocation: Invocation, name: string): void {
  command.configureOutput({
    writeOut: invocation.out,
    writeErr: invocation.err,
    outputError: (text) => {
      const said = text.replace(/^error: /, "").replace("\n(Did", " (did");
      const why = toLine(redactKeys(said)).replace(/\.$/, "");
      printFailure(invocation, `${why}; see \`${name} --help\``);
    },
  });
  for (const child of command.commands) {
    child.exitOverride();
    setOutput(child, invocation, `${name} ${child.name()}`);
  }
}

/** Makes each command refuse two values of an option, because only the last would count. */
function refuseRepeated(command: Command): void {
  for (const option of command.options.filter(({ required, optional }) => required || optional)) {
    let isGiven = false;
    command.on(`option:${option.name()}`, () => {
      // A list takes all values.
      const isList = Array.isArray(command.getOptionValue(option.attributeName()));
      if (isGiven && !isList) command.error(`${option.long} is given twice`);
      isGiven = true;
    });
  }
  for (const child of command.commands) refuseRepeated(child);
}

function toLine(text: string): string {
  return text.trim().replaceAll(/\s*\n\s*/g, "; ");
}
