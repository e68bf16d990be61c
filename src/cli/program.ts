/** The commands, and how each ends. */
import { Command, CommanderError } from "commander";
import packageJson from "../../package.json" with { type: "json" };
import { addAccountsCommands } from "./accounts_commands.ts";
import { addDatabaseCommands } from "./database_commands.ts";
import { addInstallerCommands } from "./installer_commands.ts";
import { addKeysCommands } from "./keys_commands.ts";
import { addModelsCommands } from "./models_commands.ts";
import { renderFailure } from "./run.ts";
import { addServeCommand } from "./serve_command.ts";
import type { Surroundings } from "./surroundings.ts";

const SUCCESS = 0;
const REFUSED = 1;
const WRONG_USAGE = 2;

/** Runs one command; resolves to the exit status: 0 done, 1 refused with a line that says why, 2 wrong usage. */
export async function runCommandLine(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const program = createProgram(surroundings);
  try {
    await program.parseAsync([...args], { from: "user" });
    return SUCCESS;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? SUCCESS : WRONG_USAGE;
    surroundings.err(`claviger: ${renderFailure(error).replaceAll(/\s*\n\s*/g, "; ")}\n`);
    return REFUSED;
  }
}

function createProgram(surroundings: Surroundings): Command {
  const program = new Command("claviger")
    .description("Licensing and model registry: keys, quotas, models and usage events")
    .showHelpAfterError("(add --help for what is allowed)")
    .exitOverride()
    .configureOutput({ writeOut: surroundings.out, writeErr: surroundings.err });
  addServeCommand(program, surroundings);
  addKeysCommands(program, surroundings);
  addAccountsCommands(program, surroundings);
  addModelsCommands(program, surroundings);
  addInstallerCommands(program, surroundings);
  addDatabaseCommands(program, surroundings);
  program
    .command("version")
    .description("print the version")
    .action(() => surroundings.out(`claviger ${packageJson.version}\n`));
  inheritOverrides(program);
  return program;
}

/** Commander copies these to a subcommand when it is added through `command()` before they are set. */
function inheritOverrides(command: Command): void {
  for (const child of command.commands) {
    child.copyInheritedSettings(command);
    inheritOverrides(child);
  }
}
