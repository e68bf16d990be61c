/** `claviger accounts …`: list, show, usage, update, renew and erase. */
import { REASON_TEXT } from "../../audit/mod.ts";
import { MONTH, monthOf } from "../../base/calendar.ts";
import { counted } from "../../base/render_count.ts";
import { MOST_COUNTED } from "../../database/mod.ts";
import { eraseWithKeys, findErasureEffect } from "../../licensing/keys/mod.ts";
import {
  ACCOUNT_CONDITIONS,
  createLicenseChanges,
  eraseAccount,
  listAccounts,
  renderAccount,
  renderRenewal,
  renderWithErasure,
  renewAccount,
  TEXT_RULES,
  toAccountOrder,
  updateAccount,
} from "../../licensing/mod.ts";
import { findUsageByMonth, renderUsageByMonth } from "../../usage/mod.ts";
import { databaseCommand, group } from "../command.ts";
import { demandAccount } from "../find_named.ts";
import { conditionOptions, listOptions, printList } from "../list_options.ts";
import { ACCOUNT_NAME, CONFIRMATION, REASON } from "../options.ts";
import { flag, option } from "../parameter.ts";
import { orRefuse } from "../run.ts";
import { withBars } from "../text_bars.ts";

const list = databaseCommand({
  name: "list",
  description: "list accounts, by default oldest first",
  options: { ...listOptions("usr"), ...conditionOptions(ACCOUNT_CONDITIONS) },
  async run(values, call) {
    await printList(call, values, {
      read: (part) => listAccounts(call.database, { ...part, ...toAccountOrder(values.sort) }),
      positionOf: ({ uuid }) => uuid,
      toCells: renderAccount,
      toJson: renderWithErasure,
    });
  },
});

const show = databaseCommand({
  name: "show",
  description: "show one account, and how far its erasure is if there is one",
  arguments: ACCOUNT_NAME,
  async run({ account }, { database, print }) {
    const found = await demandAccount(database, account, "show account");
    const { erasure, ...shown } = renderWithErasure(found);
    // People read each field of the erasure in its own line.
    const fields = Object.entries(erasure ?? {}).map(([name, value]) => [`erasure_${name}`, value]);
    print.fields(print.isJson ? { ...shown, erasure } : { ...shown, ...Object.fromEntries(fields) });
  },
});

const usage = databaseCommand({
  name: "usage",
  description: "show what the licenses of an account used together in each of twelve months",
  arguments: ACCOUNT_NAME,
  options: { month: option("the last month, such as 2026-11; by default this month", MONTH) },
  async run({ account, month }, { invocation, database, now, print }) {
    const { id, uuid } = await demandAccount(database, account, "show usage");
    const last = month ?? monthOf(now.getTime());
    const use = renderUsageByMonth(id, await findUsageByMonth(database, uuid, last));
    const hasOver = use.months.some(({ over }) => over > 0);
    const rows = use.months.map(({ over, ...each }) => ({ ...each, ...(hasOver && { over }) }));
    print.table(withBars(rows, { of: "used", columns: invocation.columns }), use);
  },
});

const update = databaseCommand({
  name: "update",
  description: "change an account's e-mail, name or organization; everything else of it stays",
  arguments: ACCOUNT_NAME,
  options: {
    email: option("the new e-mail", TEXT_RULES.email),
    name: option("the new name", TEXT_RULES.name),
    organization: option("the new organization", TEXT_RULES.organization),
    ...REASON,
  },
  check: ({ email, name, organization }) =>
    email === undefined && name === undefined && organization === undefined
      ? "give --email, --name or --organization"
      : undefined,
  async run({ account, email, name, organization }, { database, actor, now, print }) {
    const { id, uuid } = await demandAccount(database, account);
    const { isChanged, formerEmail, ...fields } = orRefuse(
      await updateAccount(database, { email, name, organization, uuid, actor, now }),
    );
    // People read of a former e-mail only if there is one.
    const former = (formerEmail !== undefined || print.isJson) && { former_email: formerEmail ?? null };
    print.fields({ id, ...fields, ...former }, { changed: isChanged });
    if (!isChanged) print.note("Nothing changed: the account has these values already");
    if (formerEmail !== undefined)
      print.note(`${formerEmail} names no account now: a key that is issued for it gets a new account`);
  },
});

const renew = databaseCommand({
  name: "renew",
  description: "add a year to every license of an account that expires and has a key that is not revoked",
  arguments: ACCOUNT_NAME,
  options: REASON,
  async run({ account }, { database, actor, now, print }) {
    const { uuid } = await demandAccount(database, account, "renew account");
    const renewed = await renewAccount(createLicenseChanges(database), uuid, { actor, now });
    const shown = renderRenewal(uuid, renewed);
    print.table(
      shown.licenses.map(({ id, before, expires_at }) => ({ id, before: before.expires_at, expires_at })),
      shown,
    );
    if (renewed.length === 0)
      print.note("Nothing changed: no license can be renewed, or each one was renewed in the last 24 hours");
  },
});

const erase = databaseCommand({
  name: "erase",
  description:
    "remove a person's name, e-mail, organization and external ids for good, and keep the counts of use",
  arguments: ACCOUNT_NAME,
  options: {
    revokeKeys: flag("revoke every key of the account first"),
    ...CONFIRMATION,
    reason: option("the reason, for the audit log; do not name the person", REASON_TEXT, { as: "text" }),
  },
  async run({ account, revokeKeys, dryRun }, { database, actor, now, print, confirm }) {
    const { id, uuid, email, keys } = await demandAccount(database, account);
    const { keysInUse } = await findErasureEffect(database, uuid);
    const inUse = counted(keysInUse, "key", { most: MOST_COUNTED });
    const by = { actor, now };
    const { isPersonal } =
      revokeKeys && keysInUse > 0
        ? { isPersonal: true }
        : orRefuse(await eraseAccount(database, uuid, { ...by, isDryRun: true }));
    if (!isPersonal)
      return print.line(`Nothing changed: ${id} is erased already`, {
        id,
        erased: true,
        changed: false,
        keys_revoked: 0,
      });
    if (dryRun) {
      const held = keysInUse > 0 ? `${inUse} to revoke` : counted(keys, "revoked key");
      return print.line(`Would erase ${id} (${email}), which has ${held}`, {
        id,
        erased: false,
        dry_run: true,
      });
    }
    const revokes = keysInUse > 0 ? ` and revoke ${inUse}` : "";
    await confirm(`Erase ${id} (${email})${revokes}? No command brings back what is removed.`);
    const changes = createLicenseChanges(database);
    const { revoked } = orRefuse(await eraseWithKeys(changes, uuid, { ...by, revokesKeys: revokeKeys }));
    const also = revoked > 0 ? ` and revoked ${counted(revoked, "key")}` : "";
    print.line(`Erased ${id}${also}`, { id, erased: true, changed: true, keys_revoked: revoked });
  },
});

export const accounts = group("accounts", "list, show, change and erase accounts", [
  list,
  show,
  usage,
  update,
  renew,
  erase,
]);
