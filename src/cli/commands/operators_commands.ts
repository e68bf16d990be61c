/** `claviger operators …`: create login codes, list, give another role, and remove. */
import { toTimestamp } from "../../base/calendar.ts";
import { counted } from "../../base/render_count.ts";
import {
  listOperators,
  loginOperator,
  NAME_RULE,
  ROLES,
  removeOperator,
  setRole,
} from "../../operators/mod.ts";
import { databaseCommand, group } from "../command.ts";
import { findAdminUrl } from "../find_admin_url.ts";
import { CONFIRMATION, REASON } from "../options.ts";
import { option, required } from "../parameter.ts";
import { orRefuse } from "../run.ts";

const NAME = { name: required("the operator's name", NAME_RULE) };

const login = databaseCommand({
  name: "login",
  description:
    "create a link and a code for one login within ten minutes; with --role, create the operator, too",
  arguments: NAME,
  options: {
    role: option("the role of a new operator; each role may do more than the one before", ROLES),
  },
  async run(values, { config, database, actor, now, print }) {
    const { name } = values;
    const created = orRefuse(await loginOperator(database, { name, role: values.role }, { actor, now }));
    const { code, role, isNew } = created;
    const origin = findAdminUrl(config);
    const link = origin && `${origin}/console/enter#${code}`;
    const expires_at = toTimestamp(created.expiresAt);
    if (values.json)
      return print.document({ name, role, created: isNew, link: link ?? null, code, expires_at });
    // On a line of its own, because it is long.
    if (link !== undefined) print.line(link);
    print.fields({ name, role, code, expires_at });
    if (isNew) print.note(`Created the operator ${name}`);
    print.note(
      link === undefined
        ? "No service serves operators here: set CLAVIGER_ADMIN_LISTEN, such as 127.0.0.1:8081, restart the " +
            "service, and log in within ten minutes; or create another code then"
        : "Open the link, or type the code at /console/enter: either works once, for ten minutes",
    );
  },
});

const list = databaseCommand({
  name: "list",
  description: "list operators by name, including removed operators",
  async run(_values, { database, print }) {
    const operators = await listOperators(database);
    const rows = operators.map((operator) => ({
      name: operator.name,
      role: operator.role,
      state: operator.removedAt === null ? "active" : "removed",
      created_at: toTimestamp(operator.createdAt),
      removed_at: operator.removedAt && toTimestamp(operator.removedAt),
      last_seen_at: operator.lastSeenAt && toTimestamp(operator.lastSeenAt),
    }));
    print.table(
      rows,
      rows.map((row, index) => ({ ...row, issuer: operators[index]?.issuer ?? null })),
    );
  },
});

const role = databaseCommand({
  name: "role",
  description: "give an operator another role, at once",
  arguments: { ...NAME, role: required("the new role", ROLES) },
  options: REASON,
  async run({ name, role }, { database, actor, now, print }) {
    const { isChanged } = orRefuse(await setRole(database, { name, role }, { actor, now }));
    print.fields({ name, role }, { changed: isChanged });
    if (!isChanged) print.note("Nothing changed: the operator has this role already");
  },
});

const remove = databaseCommand({
  name: "remove",
  description: "remove an operator for good, and end the operator's sessions; the name is not used again",
  arguments: NAME,
  options: { ...REASON, ...CONFIRMATION },
  async run({ name, dryRun }, { database, actor, now, print, confirm }) {
    const by = { actor, now };
    const planned = orRefuse(await removeOperator(database, name, { ...by, isDryRun: true }));
    const has = counted(planned.sessions, "session");
    if (dryRun) {
      const plan = { name, removed: false, dry_run: true, ...planned };
      return print.line(`Would remove ${name}, who has ${has}`, plan);
    }
    await confirm(`Remove ${name}, who has ${has}? The name is not used again.`);
    const { sessions, tokens } = orRefuse(await removeOperator(database, name, by));
    const ended = `Removed ${name}, and ended ${counted(sessions, "session")}`;
    print.line(ended, { name, removed: true, sessions, tokens });
    if (tokens.length === 0) return;
    print.note(
      `Tokens that ${name} issued still work: ${tokens.join(", ")}; \`claviger tokens revoke NAME\` revokes one`,
    );
  },
});

export const operators = group(
  "operators",
  "let people log in to the console, change their roles, and remove them",
  [login, list, role, remove],
);
