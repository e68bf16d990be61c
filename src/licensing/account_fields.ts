/** The fields of an account in answers to operators. */
import * as v from "valibot";
import { count, fieldsOf, identifier, renderFields, timestamp } from "../base/answer_fields.ts";
import { toTimestamp } from "../base/calendar.ts";
import { isErased } from "./_erased_email.ts";
import type { Account } from "./accounts.ts";

const field = fieldsOf<Account>();

/** Without its erasure: an account in a table of the command. */
const FIELDS = {
  id: field(identifier("usr"), ({ id }) => id),
  email: field(v.string(), ({ email }) => email),
  name: field(v.string(), ({ name }) => name),
  organization: field(v.string(), ({ organization }) => organization),
  keys: field(count(), ({ keys }) => keys, "The number of its keys, including revoked keys"),
  created_at: field(timestamp(), ({ createdAt }) => toTimestamp(createdAt)),
} as const;

export const ACCOUNT_FIELDS = {
  ...FIELDS,
  erasure: field(
    v.nullable(
      v.object({
        began_at: v.nullable(timestamp()),
        is_complete: v.boolean(),
        erased_at: v.nullable(timestamp()),
        events_erased_at: v.nullable(timestamp()),
      }),
    ),
    renderErasure,
    "Null for a person's account. `events_erased_at` is the time since when no event of the account has texts or metadata",
  ),
} as const;

/** Renders an account as JSON, without its erasure. */
export function renderAccount(account: Account) {
  return renderFields(FIELDS, account);
}

/** Renders an account and its erasure, for `--json` of the commands and for the API. */
export function renderWithErasure(account: Account) {
  return renderFields(ACCOUNT_FIELDS, account);
}

/** Renders the erasure; null if nobody was or is being erased from the account. */
function renderErasure(account: Account) {
  const at = (time: Date | null) => time && toTimestamp(time);
  const { erasingSince, erasedAt, textsErasedAt } = account;
  const isComplete = isErased(account);
  if (!isComplete && erasingSince === null) return null;
  return {
    began_at: at(erasingSince),
    is_complete: isComplete,
    erased_at: at(erasedAt),
    events_erased_at: at(textsErasedAt),
  };
}
