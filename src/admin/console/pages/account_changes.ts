/** What the forms of an account's page do. After a refusal the page shows the form again. */
import type { Context } from "hono";
import * as v from "valibot";
import { type Account, eraseAccount, renewAccount, updateAccount } from "../../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../../refusal.ts";
import { lineField } from "../../api/fields.ts";
import type { AdminEnv } from "../../options.ts";
import { answerChange, changeBy } from "../answer_change.ts";
import { parseForm, REASON_ENTRY, repeatEntry, TEXT } from "../attempt.ts";
import type { Page } from "../page.tsx";
import type { Visit } from "../visit.ts";
import { type AccountDone, accountOf, accountPage } from "./account.tsx";

type Answer = Promise<Page | Response | Refusal>;

const CHANGE = {
  name: v.pipe(TEXT, lineField("name", 1, 200)),
  organization: v.pipe(TEXT, lineField("organization", 0, 200)),
  ...REASON_ENTRY,
};

/** Changes name and organization. */
export function changeAccountOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  return changeAccount(visit, c, {
    action: "change",
    async perform({ uuid }) {
      const fields = parseForm(CHANGE, visit.form);
      if (isRefusal(fields)) return fields;
      const { name, organization } = fields;
      const by = changeBy(visit, fields);
      const updated = await updateAccount(visit.options.database, { uuid, name, organization, ...by });
      return isRefusal(updated) ? updated : updated.isChanged ? "changed" : "same";
    },
  });
}

const CHANGED_MEANWHILE = refuse(
  "CONFLICT",
  "Nothing was renewed: the licenses were changed after the page was opened; look at their expiries again",
);

/** The version of what the page showed, so that a form that is sent twice renews once. */
const RENEW = {
  version: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/, "It must be that of the page")),
  ...REASON_ENTRY,
};

/** Adds a year to every license. */
export function renewAccountOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  return changeAccount(visit, c, {
    action: "renew",
    async perform({ uuid }) {
      const fields = parseForm(RENEW, visit.form);
      if (isRefusal(fields)) return fields;
      const { database, directory } = visit.options;
      const { version } = fields;
      const renewed = await renewAccount(database, uuid, { ...changeBy(visit, fields), version });
      for (const { licenseUuid } of renewed) directory.forgetLicense(licenseUuid);
      return renewed.length === 0 ? CHANGED_MEANWHILE : "renewed";
    },
  });
}

/** Removes the person for good, if the form repeats the e-mail. */
export function eraseAccountOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  return changeAccount(visit, c, {
    action: "erase",
    async perform({ uuid, email }) {
      const fields = parseForm({ ...repeatEntry(email), ...REASON_ENTRY }, visit.form);
      if (isRefusal(fields)) return fields;
      const erased = await eraseAccount(visit.options.database, uuid, changeBy(visit, fields));
      return isRefusal(erased) ? erased : "erased";
    },
  });
}

interface Change {
  /** The name of the action on the page. */
  readonly action: string;
  /** Makes the change; returns the word for what was done. */
  perform(account: Account): Promise<AccountDone | Refusal>;
}

async function changeAccount(visit: Visit, c: Context<AdminEnv>, { action, perform }: Change): Answer {
  const account = await accountOf(visit, `${action} account`);
  if (isRefusal(account)) return account;
  return await answerChange(visit, c, {
    action,
    path: `/console/accounts/${account.id}`,
    perform: () => perform(account),
    showAgain: (attempt) => accountPage(visit, attempt),
  });
}
