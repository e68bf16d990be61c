/** The fields of a notice in answers to operators. */
import * as v from "valibot";
import { nameOfActor, UPKEEP } from "../audit/mod.ts";
import { fieldsOf, identifier, oneOfThese, renderFields, timestamp } from "../base/answer_fields.ts";
import { toTimestamp } from "../base/calendar.ts";
import { describeNotice } from "./describe_notice.ts";
import { KIND_MEANINGS, NOTICE_KINDS, NOTICE_STATES, STATE_MEANINGS, WITHDRAWN_WORDS } from "./kinds.ts";
import type { NoticeSummary } from "./notice.ts";

const field = fieldsOf<NoticeSummary>();
const ABOUT_INSTALLATION = "Null for a notice about the installation";

/** Returns words with what each means, as the document lists them. */
function meaningsOf(meanings: Readonly<Record<string, string>>): string {
  return Object.entries(meanings)
    .map(([word, meaning]) => `\`${word}\`: ${meaning}`)
    .join("; ");
}

export const NOTICE_FIELDS = {
  id: field(identifier("ntc"), ({ id }) => id),
  kind: field(oneOfThese(NOTICE_KINDS), ({ kind }) => kind, meaningsOf(KIND_MEANINGS)),
  state: field(oneOfThese(NOTICE_STATES), ({ state }) => state, meaningsOf(STATE_MEANINGS)),
  says: field(v.string(), (notice) => describeNotice(notice), "The notice in words, for people"),
  user_id: field(v.nullable(identifier("usr")), ({ userId }) => userId, ABOUT_INSTALLATION),
  license_id: field(v.nullable(identifier("lic")), ({ licenseId }) => licenseId, ABOUT_INSTALLATION),
  key_id: field(v.nullable(identifier("key")), ({ keyId }) => keyId, "A key of the license, or the key"),
  email: field(v.nullable(v.string()), ({ email }) => email),
  true_since: field(timestamp(), ({ trueSince }) => toTimestamp(trueSince), "When it became true"),
  made_at: field(timestamp(), ({ madeAt }) => toTimestamp(madeAt)),
  facts: field(
    v.record(v.string(), v.unknown()),
    ({ facts }) => facts,
    "The numbers and times of the notice, by its kind",
  ),
  remind_at: field(
    v.nullable(timestamp()),
    ({ remindAt }) => remindAt && toTimestamp(remindAt),
    "Until then it is not among the open ones; null if nobody has put it off",
  ),
  closed_at: field(v.nullable(timestamp()), ({ closedAt }) => closedAt && toTimestamp(closedAt)),
  closed_by: field(
    v.nullable(v.string()),
    ({ closedBy }) => closedBy,
    `Who marked it as done, as the audit log says it, or \`${nameOfActor(UPKEEP)}\``,
  ),
  withdrawn_for: field(
    v.nullable(oneOfThese(Object.keys(WITHDRAWN_WORDS))),
    ({ withdrawnFor }) => withdrawnFor,
    meaningsOf(WITHDRAWN_WORDS),
  ),
} as const;

/** Renders a notice as JSON, for `--json` of the commands and for the API. */
export function renderNotice(notice: NoticeSummary) {
  return renderFields(NOTICE_FIELDS, notice);
}
