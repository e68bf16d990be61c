/** The remedies of refusals as the commands or options to type. */

import { quoteShellWord } from "../base/quote_shell_word.ts";
import type { Refusal } from "../base/refusal.ts";
import type { RemedyName } from "../base/remedy.ts";

const COMMANDS: Readonly<Record<RemedyName, (of: string) => string>> = {
  list_keys: () => "see `claviger keys list`",
  select_keys: () => "see `claviger keys list`",
  replace_one: () => "replace one of them first with `claviger keys replace KEY`",
  replace_key: (id) => `replace it with a new key with \`claviger keys replace ${id}\``,
  rotate_instead: (id) => `rotate it instead with \`claviger keys rotate ${id}\``,
  resume_key: (id) => `\`claviger keys resume ${id}\` comes first`,
  renew_license: (id) => `\`claviger keys renew ${id} --expires-at TIME\` comes first`,
  rotate_replacement: (id) => `rotate that one with \`claviger keys rotate ${id}\``,
  revoke_keys_of_account: (id) => `revoke its keys first; \`claviger keys list --account ${id}\` shows them`,
  change_account: (email) =>
    `leave them out, or change the account first with \`claviger accounts update ${email}\``,
  list_operators: () => "see `claviger operators list`",
  appoint_admin: () => "make another operator an admin first with `claviger operators role NAME admin`",
  give_role: () => "give it with --role",
  change_role: (name) => `change the role first with \`claviger operators role ${name} ROLE\``,
  log_in_again: (name) => `log in again first with a code from \`claviger operators login ${name}\``,
  list_tokens: () => "see `claviger tokens list`",
  issue_token: () =>
    "issue a token with another name with `claviger tokens issue --name NAME --scope SCOPES`",
  extend_token: () => "give a later expiry with --expires-at",
  require_commercial: () => "give --requires-license commercial",
  list_models: () => "see `claviger models list`",
  name_machine: () => "give it with --fingerprint",
  list_signing_keys: () => "`claviger licenses public-keys` shows the ids",
  rotate_signing_key: () => "`claviger licenses rotate-signing-key` comes first",
  retire_later: () => "retire it after that, or add --now if its private key leaked",
  allow_new_account: () => "add --new-account if an account with it is to be made",
  shorten: () => "add --shorten if that is meant",
  begin_journal: () =>
    "add --new-journal and --reason TEXT if that is meant, such as after a restore of the machine",
  allow_clock: () => "add --clock-ahead and --reason TEXT if its use is to count with the days that it has",
  read_from_start: () =>
    "begin again with `--after start`: rows that you have come again, and `unique_id` tells which they are",
  retire_leaked: () => "retire it only if its private key leaked, with --now",
};

/** Returns the sentence of a refusal with the command that helps, if there is one. */
export function renderRefusal({ stem, remedy, sentence }: Refusal): string {
  return remedy === undefined
    ? sentence
    : `${stem}; ${COMMANDS[remedy.name](quoteShellWord(remedy.of ?? ""))}`;
}
