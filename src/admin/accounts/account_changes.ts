/** The changes that the forms of an account's page make. After a refusal the page shows the form again. */
import type { Context } from "hono";
import * as v from "valibot";
import { type Account, eraseAccount, renewAccount, updateAccount } from "../../licensing/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { textField } from "../frame/api/fields.ts";
import { answerChange } from "../frame/console/answer_change.ts";
import { repeatEntry, TEXT } from "../frame/console/attempt.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";
import { type AccountDone, accountOf, accountPage } from "./account.tsx";

type Answer = Promise<Page | Response | Refusal>;

const CHANGE = {
  name: v.pipe(TEXT, textField("name")),
  organization: v.pipe(TEXT, textField("organization")),
};

/** Changes name and organization. */
export async function changeAccountOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const account = await accountOf(visit, "change account");
  if (isRefusal(account)) return account;
  return await answerChange(visit, c, {
    ...onPageOf(account),
    action: "change",
    entries: CHANGE,
    async perform(fields, by): Promise<AccountDone | Refusal> {
      const updated = await updateAccount(visit.options.database, { uuid: account.uuid, ...fields, ...by });
      return isRefusal(updated) ? updated : updated.isChanged ? "changed" : "same";
    },
  });
}

const CHANGED_MEANWHILE = refuse(
  "CONFLICT",
  "Nothing was renewed: the licenses were changed after the page was opened; look at their expiries again",
);

/** The version of the licenses that the page showed, so that a form that is sent twice renews once. */
const RENEW = {
  version: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/, "It must be the version on the page")),
};

/** Adds a year to every license. */
export async function renewAccountOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const account = await accountOf(visit, "renew account");
  if (isRefusal(account)) return account;
  return await answerChange(visit, c, {
    ...onPageOf(account),
    action: "renew",
    entries: RENEW,
    async perform({ version }, by): Promise<AccountDone | Refusal> {
      const { database, directory } = visit.options;
      const renewed = await renewAccount(database, account.uuid, { ...by, version });
      for (const { licenseUuid } of renewed) directory.forgetLicense(licenseUuid);
      return renewed.length === 0 ? CHANGED_MEANWHILE : "renewed";
    },
  });
}

/** Removes the person for good, if the form repeats the e-mail. */
export async function eraseAccountOfForm(visit: Visit, c: Context<AdminEnv>): Answer {
  const account = await accountOf(visit, "erase account");
  if (isRefusal(account)) return account;
  return await answerChange(visit, c, {
    ...onPageOf(account),
    action: "erase",
    entries: repeatEntry(account.email),
    async perform(_, by): Promise<AccountDone | Refusal> {
      const erased = await eraseAccount(visit.options.database, account.uuid, by);
      return isRefusal(erased) ? erased : "erased";
    },
  });
}

function onPageOf({ id }: Account) {
  return { path: `/console/accounts/${id}`, show: accountPage };
}
