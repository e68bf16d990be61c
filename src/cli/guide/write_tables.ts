/** Writes the pages that are made from tables in the code: the settings and the commands. */
import type { Command, Option } from "commander";
import { SETTINGS } from "../../installation/config/mod.ts";

/** Returns the Markdown of the page `settings`. */
export function writeSettingsPage(): string {
  const settings = SETTINGS.map(({ name, default: standard, expects, meaning }) => {
    const byDefault = standard === "" ? "" : ` Default: \`${standard}\`.`;
    return `### ${name}\n\n${toSentence(meaning)}${byDefault} Allowed: ${expects}.\n`;
  });
  return `# Settings

You find what each setting means, its default, and what it allows. \`claviger guide CLAVIGER_PORT\` shows one setting.

A setting comes from an option of the command, else from the environment, else from the settings file
\`/etc/claviger/claviger.env\` (\`--env-file\` names another file). The file has lines of the form \`NAME=value\`, without
\`export\`; a comment has a line of its own that begins with \`#\`. An empty value counts as not given. A wrong or unknown
setting is refused at start. \`claviger config check\` shows every setting in force and where it comes from.

## The secret and the data folder

The root secret seals the repository token in the database. Without a given secret the first start makes one, in the
file \`secret\` of the data folder: keep it with your [backups](backups.md). A wrong secret is found at start.

The data folder has \`postgres\`, the database, if it is inside; \`models\`, the hosted files; \`secret\`; and, while a
service runs, \`serving\`, which says where the service listens.

## The settings

${settings.join("\n")}`;
}

/** Returns the Markdown of the page `commands`. */
export function writeCommandsPage(program: Command): string {
  const commands = leavesOf(program).map(({ path, command }) => {
    const options = command.options.filter(({ hidden }) => !hidden).map(describeOption);
    const parts = [
      `### ${path}`,
      toSentence(command.description()),
      `\`\`\`\n${path} ${command.usage()}\n\`\`\``,
    ];
    if (options.length > 0) parts.push(options.join("\n"));
    return parts.map((part) => `${part}\n`).join("\n");
  });
  return `# Commands

You find every command with its arguments and options. \`claviger help COMMAND\` prints the same for one command.

Commands work while the service runs and while it is stopped. They find the database and the secret by the same
[settings](settings.md) as the service. They print tables, or with \`--json\` one JSON document.
If a terminal is narrower than a table, each row continues in further lines. Errors and the states of \`doctor\` have
colours on a terminal, unless \`NO_COLOR\` is set.

| Exit status | Meaning |
|---|---|
| 0 | done |
| 1 | refused: one line on standard error says why and what to do |
| 2 | wrong usage: an unknown command or option, or a wrong value |
| 3 | \`backup\` saved everything but some model files, which it names; \`backup --verify\` and \`restore\` of such a backup end like this, too; \`bundle make\` and \`machines release-all\` did what they say, and name the machines that they left out; \`bundle make\` ends like this whenever a license was signed and not every bundle was made; \`usage import\` imported some of the reports, or all, but signed no license |
| 4 | \`audit --follow\`: the [cursor has expired](follow.md#after-a-restore-or-a-failover), because the database was restored or replaced, or a standby took its place |
| 78 | the data is lost or damaged, or [may be](backups.md#the-folder-of-an-installation): a restore helps. Or an [old unit](systemd.md#from-a-unit-with-environment) says which installation the service has. \`serve\` found a fault that [only a person can repair](troubleshooting.md#when-serve-ends); the unit of \`claviger systemd\` does not restart it then, nor after 2 |

Only \`serve\`, \`migrate\` and \`restore\` create or change the schema of a database. Every other command refuses a
folder without data, so that nobody issues keys into a database that no service uses.

Control characters, line breaks and marks of writing direction in texts of other people are shown as escapes
(\`\\u001b\`). \`--csv\` puts an apostrophe before a text that a spreadsheet would take for a formula.

## The commands

${commands.join("\n")}`;
}

/** Returns all commands that have no commands below them, with their whole names, in the order of their definition. */
export function leavesOf(command: Command, path = command.name()): { path: string; command: Command }[] {
  if (command.commands.length === 0) return [{ path, command }];
  return command.commands.flatMap((child) => leavesOf(child, `${path} ${child.name()}`));
}

function describeOption(option: Option): string {
  const { flags, description, mandatory, argChoices, defaultValue, defaultValueDescription } = option;
  const notes = [
    mandatory ? "required" : "",
    argChoices === undefined ? "" : `one of ${argChoices.join(", ")}`,
    defaultValue === undefined || defaultValue === false
      ? ""
      : `default ${defaultValueDescription ?? defaultValue}`,
  ].filter((note) => note !== "");
  return `- \`${flags}\`: ${description}${notes.length > 0 ? ` (${notes.join("; ")})` : ""}`;
}

function toSentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}
