/** `claviger migrate` and `claviger audit`. */
import {
  AUDIT_CONDITIONS,
  AUDIT_ID,
  type AuditRow,
  describeChanges,
  type FieldChange,
  findAuditPosition,
  listAudit,
  renderAuditRow,
} from "../../audit/mod.ts";
import { toTimestamp } from "../../base/calendar.ts";
import { migrate, migrationStatus, migrations } from "../../database/mod.ts";
import { ACCOUNT_CONDITION, findAccountOfAudit } from "../../licensing/mod.ts";
import { command, databaseCommand } from "../command.ts";
import { conditionOptions, conditionsOf, limitOption, printRows } from "../list_options.ts";
import { JSON_OPTIONS } from "../options.ts";
import { flag, option } from "../parameter.ts";
import { CommandRefused, orRefuse, readSettings, withInstallation } from "../run.ts";

const CONDITIONS = { account: ACCOUNT_CONDITION, ...AUDIT_CONDITIONS };

export const audit = databaseCommand({
  name: "audit",
  description: "show who changed what, newest first",
  options: {
    ...limitOption(100_000),
    after: option("show the rows after the one with this id, which are older", AUDIT_ID, { as: "id" }),
    ...conditionOptions(CONDITIONS),
  },
  async run({ limit, after: id, ...values }, { database, print }) {
    const { account: who, key: keyUuid, ...conditions } = conditionsOf(CONDITIONS, values);
    const accountUuid = orRefuse(await findAccountOfAudit(database, who));
    const after = id === undefined ? undefined : await findAuditPosition(database, id);
    if (id !== undefined && after === undefined)
      throw new CommandRefused(`Cannot show audit log: no change has the id ${id}`);
    // One row more than is shown tells whether there are more.
    const part = { after, limit: limit + 1 };
    const rows = await listAudit(database, { ...conditions, keyUuid, accountUuid, ...part });
    const further = "older rows";
    const next = ({ id }: AuditRow) => `the next rows with --after ${id}`;
    await printRows(print, [rows], { limit, toCells: toShown, toJson: renderAuditRow, further, next });
  },
});

/** Returns the cells of a row for people. The last cell joins all that other rows may lack, so that no cell is empty. */
function toShown({ id, at, actor, action, before, after, reason, request, address, ...row }: AuditRow) {
  const details = [
    ...describeChanges(before, after).map(toWords),
    ...[row.keyId, row.licenseId, row.userId].filter((each) => each !== null),
    ...(request === null ? [] : [request]),
    ...(address === null ? [] : [`from ${address}`]),
    // The reason is free text, so it is last: no part of it can pass for another detail.
    ...(reason === null ? [] : [`reason: ${reason}`]),
  ];
  return { id, at, actor, action, details: details.join("; ") };
}

function toWords({ field, before, after }: FieldChange): string {
  if (before === undefined) return `${field}: ${after}`;
  return after === undefined ? `${field} was ${before}` : `${field} from ${before} to ${after}`;
}

export const migration = command({
  name: "migrate",
  description: "bring a new or existing database to this version's schema",
  options: { ...JSON_OPTIONS, status: flag("only show which migrations are applied and which are not") },
  async run({ status: isShownOnly, ...place }, { invocation, print }) {
    const config = readSettings(invocation, place);
    const create = !isShownOnly;
    await withInstallation(invocation, { config, create }, async ({ address }) => {
      if (create) orRefuse(await migrate(address, migrations));
      const status = await migrationStatus(address, migrations);
      if (status.refusal !== undefined) throw new CommandRefused(status.refusal.sentence);
      print.table([
        ...status.applied.map(({ number, name, appliedAt }) => ({
          number,
          name,
          applied_at: toTimestamp(appliedAt),
        })),
        ...status.pending.map(({ number, name }) => ({ number, name, applied_at: null })),
      ]);
    });
  },
});
