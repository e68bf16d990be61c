/**
 * What ends the cause of a refusal, as a value, because rooms know no door: the API for operators ends the sentence with
 * the words below, the command line with a command to type (`cli/remedies.ts`), and the console adds a link
 * (`admin/frame/console/remedies.tsx`).
 */
export type Remedy =
  | { readonly name: keyof typeof PLAIN; readonly of?: undefined }
  /** `of` is the id, the e-mail or the name of what is to be changed or seen. */
  | { readonly name: keyof typeof OF_THING; readonly of: string };

export type RemedyName = Remedy["name"];

// Without words, the sentence says enough for a door that has no command and no link.
const PLAIN = {
  list_keys: undefined,
  replace_one: "replace one of them first",
  list_operators: undefined,
  appoint_admin: "make another operator an admin first",
  give_role: undefined,
  list_tokens: undefined,
  issue_token: "issue a token with another name",
  extend_token: "give a later expiry",
  require_commercial: undefined,
  list_models: undefined,
  name_machine: undefined,
  list_signing_keys: undefined,
  rotate_signing_key: "rotate first",
  retire_later: "retire it after that",
  allow_new_account: "add new_account if an account with it is to be made",
  shorten: "add shorten if that is meant",
  begin_journal: "add new_journal with a reason if that is meant, such as after a restore of the machine",
  allow_clock: "add clock_ahead with a reason if its use is to count with the days that it has",
  read_from_start: "read the audit log again from its beginning, without `after`",
  retire_leaked: "retire it only if its private key leaked",
} as const;

const OF_THING = {
  resume_key: "resume it first",
  renew_license: "renew its license first",
  replace_key: "replace it with a new key",
  rotate_instead: "rotate it instead",
  rotate_replacement: "rotate that one",
  revoke_keys_of_account: "revoke its keys first",
  change_account: "leave them out, or change the account first",
  change_role: "change the role first",
  log_in_again: "log in again first",
  select_keys: undefined,
} as const;

/** The words of each remedy. */
export const WORDS: Readonly<Record<RemedyName, string | undefined>> = { ...PLAIN, ...OF_THING };
