/** The options and arguments that many commands share. */
import { NEEDED_REASON_TEXT, REASON_TEXT } from "../audit/mod.ts";
import { idForm, idRule } from "../base/ids.ts";
import type { ParsingRule } from "../base/rule.ts";
import { lineOf } from "../database/mod.ts";
import { type SettingName, settingOf } from "../installation/config/mod.ts";
import { ACCOUNT } from "../licensing/mod.ts";
import { flag, option, required, type ValuesOf } from "./parameter.ts";

/**
 * The path of a file or folder. An empty text is refused: it would stand for the current folder, and it comes from a command in
 * `"$(…)"` that has found nothing.
 */
export const PATH: ParsingRule<string> = {
  ...lineOf(1, 4_095),
  expects: "the path of a file or folder; an empty text names none",
};

/** The options that say where the installation is: every command that opens it has them. */
export const PLACE_OPTIONS = {
  dataDir: option("the data folder", PATH, { as: "dir" }),
  envFile: option("read settings from this file instead of /etc/claviger/claviger.env", PATH, { as: "file" }),
};

export type InstallationFlags = ValuesOf<typeof PLACE_OPTIONS>;

export const JSON_FLAG = { json: flag("print one JSON document") };

export const JSON_OPTIONS = { ...JSON_FLAG, ...PLACE_OPTIONS };

/** For a command that makes a change: `withDatabase` adds the reason to the actor. */
export const REASON = { reason: option("the reason, for the audit log", REASON_TEXT, { as: "text" }) };

/** For a change that needs a reason. */
export const NEEDED_REASON = {
  reason: required("the reason, for the audit log", NEEDED_REASON_TEXT, { as: "text" }),
};

/** For a change of an expiry or of an end of updates, which is refused if it becomes earlier by mistake. */
export const SHORTEN = { shorten: flag("allow an end that is earlier than the present one") };

/** For a change that cannot be undone: the command first asks with `confirm`. */
export const CONFIRMATION = {
  yes: flag("do not ask for confirmation, even at a terminal"),
  dryRun: flag("only show what would be done"),
};

/** The argument of a command about one key; its value is the key's UUID. */
export const KEY_ID = {
  id: required("the key's id", {
    ...idRule("key"),
    expects: `${idForm("key")}; \`claviger keys list --search TEXT\` finds it, such as by the last 4 characters of the key`,
  }),
};

/** The argument of a command about one account. */
export const ACCOUNT_NAME = { account: required("the account's id or e-mail", ACCOUNT) };

/** Accepts a text that the setting allows, and an empty text if the setting may be left out. */
export function settingText(name: SettingName): ParsingRule<string> {
  const { default: standard, expects, parse } = settingOf(name);
  const isAllowed = (text: string) => (text === "" ? standard === "" : parse(text) !== undefined);
  return { expects, parse: (text) => (isAllowed(text) ? text : undefined) };
}
