/**
 * Renders the manual page of man(1), in the macros of man(7), from the definitions of commands and settings.
 */
import type { Command } from "commander";
import { VERSION } from "../../base/version.ts";
import { SETTINGS } from "../../installation/config/mod.ts";
import { PAGES } from "./pages.ts";
import { leavesOf } from "./write_tables.ts";

/** Renders all commands as one man page. */
export function renderManPage(program: Command): string {
  const commands = leavesOf(program).map(({ path, command }) =>
    [
      `.SS ${toRoff(`${path} ${command.usage()}`)}`,
      toRoff(`${command.description()}.`),
      ...command.options
        .filter(({ hidden }) => !hidden)
        .map(({ flags, description }) => `.TP\n.B ${toRoff(flags)}\n${toRoff(description)}`),
    ].join("\n"),
  );
  const settings = SETTINGS.map(({ name, default: standard, meaning }) => {
    const byDefault = standard === "" ? "" : ` Default: ${standard}.`;
    return `.TP\n.B ${toRoff(name)}\n${toRoff(`${meaning}.${byDefault}`)}`;
  });
  const pages = PAGES.map(
    ({ name, summary }) => `.TP\n.B claviger guide ${toRoff(name)}\n${toRoff(summary)}`,
  );
  const about = program.description();
  return `.TH CLAVIGER 1 "" "claviger ${VERSION}" "Claviger"
.SH NAME
claviger \\- ${toRoff(about.slice(0, 1).toLowerCase() + about.slice(1))}
.SH SYNOPSIS
.B claviger
.I command
[options]
.SH DESCRIPTION
Claviger issues API keys, counts their use against monthly quotas, lists models and serves their files.
.B claviger serve
runs the service; the other commands operate it. The whole manual is inside the program:
${pages.join("\n")}
.SH COMMANDS
${commands.join("\n")}
.SH ENVIRONMENT
A setting comes from a flag, from the environment, or from the settings file.
${settings.join("\n")}
.SH FILES
.TP
.B /etc/claviger/claviger.env
the settings file
.TP
.B /var/lib/claviger
the data folder of root and of the unit
.SH EXIT STATUS
0 when the command was done, 1 when it was refused, 2 when its usage was wrong, 3 when a backup or its restore lacks
model files, 78 when data is lost or damaged, or when
.B serve
finds a fault that only a person can repair, such as a wrong setting.
`;
}

/** Escapes text for roff, so that no line becomes a request and a hyphen stays a hyphen. */
function toRoff(text: string): string {
  return text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replace(/^([.'])/, "\\&$1");
}
