/** `claviger audit`: shows the audit log, or follows it. */
import {
  AUDIT_CONDITIONS,
  AUDIT_ID,
  AUDIT_POSITION,
  type AuditFilter,
  type AuditRow,
  describeChanges,
  type FieldChange,
  findAuditPosition,
  listAudit,
  renderAuditRow,
} from "../../audit/mod.ts";
import type { ParsingRule } from "../../base/rule.ts";
import type { Database } from "../../database/mod.ts";
import { ACCOUNT_CONDITION, findAccountOfAudit } from "../../licensing/mod.ts";
import { sayRows } from "../../notices/mod.ts";
import { command } from "../command.ts";
import { FROM_START, followLog } from "../follow_log.ts";
import { conditionOptions, conditionsOf, limitOption, printRows } from "../list_options.ts";
import { JSON_OPTIONS } from "../options.ts";
import { flag, option, type ValuesOf } from "../parameter.ts";
import { CommandRefused, orRefuse, withDatabase } from "../run.ts";

const CONDITIONS = { account: ACCOUNT_CONDITION, ...AUDIT_CONDITIONS };
const FOLLOWED_AFTER = `a cursor of \`audit --follow --json\`, or ${FROM_START}`;

/** The id of a row; with `--follow` a cursor. */
const AFTER: ParsingRule<number | string> = {
  expects: `the id of a row, or with --follow ${FOLLOWED_AFTER}`,
  parse: (text) =>
    AUDIT_ID.parse(text) ?? (text === FROM_START || AUDIT_POSITION.test(text) ? text : undefined),
};

const OPTIONS = {
  ...JSON_OPTIONS,
  ...limitOption(100_000),
  follow: flag("show the rows that are written from now on, oldest first, until a signal", {
    conflicts: ["limit"],
  }),
  after: option(
    `show the rows after the one with this id, which are older; with --follow read on after this cursor, or from ${FROM_START}`,
    AFTER,
    { as: "id" },
  ),
  ...conditionOptions(CONDITIONS),
};

export const audit = command({
  name: "audit",
  description: "show who changed what, newest first, or follow the log",
  options: OPTIONS,
  check({ follow, after }) {
    if (after === undefined || follow === (typeof after === "string")) return undefined;
    return `option '--after <id>' must be ${follow ? `with --follow ${FOLLOWED_AFTER}` : "the id of a row without --follow"}`;
  },
  async run({ follow, limit, after, ...values }, { invocation, print }) {
    const filterOf = (database: Database) => findFilter(database, values);
    const forms = { toCells: toShown, toJson: renderSaid };
    if (follow) {
      const from = typeof after === "string" ? after : undefined;
      return await followLog(invocation, { place: values, after: from, filterOf, print, forms });
    }
    await withDatabase(invocation, values, async ({ database }) => {
      const position = typeof after === "number" ? await findPosition(database, after) : undefined;
      // One row more than is shown tells whether there are more.
      const part = { after: position, limit: limit + 1 };
      const found = await listAudit(database, { ...(await filterOf(database)), ...part });
      const rows = await sayRows(database, found, invocation.clock.now());
      const next = ({ id }: AuditRow) => `the next rows with --after ${id}`;
      await printRows(print, [rows], { limit, ...forms, further: "older rows", next });
    });
  },
});

/** A row, and what it says if it is about a notice. */
type SaidRow = AuditRow & { readonly says?: string };

function renderSaid({ says, ...row }: SaidRow) {
  return { ...renderAuditRow(row), ...(says && { says }) };
}

/** Returns the conditions of the rows that the options ask for. */
async function findFilter(
  database: Database,
  values: ValuesOf<ReturnType<typeof conditionOptions<typeof CONDITIONS>>>,
): Promise<AuditFilter> {
  const { account: who, key: keyUuid, ...conditions } = conditionsOf(CONDITIONS, values);
  return { ...conditions, keyUuid, accountUuid: orRefuse(await findAccountOfAudit(database, who)) };
}

async function findPosition(database: Database, id: number): Promise<string> {
  const position = await findAuditPosition(database, id);
  if (position === undefined) throw new CommandRefused(`Cannot show audit log: no change has the id ${id}`);
  return position;
}

/** Returns the cells of a row for people. The last cell joins all that other rows may lack, so that no cell is empty. */
function toShown({ id, at, actor, action, before, after, reason, request, address, ...row }: SaidRow) {
  const details = [
    ...(row.says === undefined ? [] : [row.says]),
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
