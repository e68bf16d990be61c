/** `claviger operators …`: create login codes, list, give another role, and remove. */
import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { toTimestamp } from "../../calendar.ts";
import {
  isName,
  listOperators,
  loginOperator,
  NAME_RULE,
  ROLES,
  type Role,
  removeOperator,
  setRole,
} from "../../operators/mod.ts";
import { type ConfirmOptions, confirm, withConfirmation } from "../confirm.ts";
import { findAdminUrl } from "../find_admin_url.ts";
import type { Invocation } from "../invocation.ts";
import { type ChangeOptions, type JsonOptions, withJsonOptions, withReason, withWords } from "../options.ts";
import { counted, printFields, printJson, printLine, printNote, printTable } from "../print.ts";
import { orRefuse, withDatabase } from "../run.ts";

export function addOperatorsCommands(program: Command, invocation: Invocation): void {
  const operators = program
    .command("operators")
    .description("let people log in to the console, change their roles, and remove them");

  withJsonOptions(operators.command("login"))
    .description(
      "create a link and a code for one login within ten minutes; with --role, create the operator, too",
    )
    .argument("<name>", "the operator's name", nameOption)
    .addOption(
      withWords(
        new Option("--role <role>", "the role of a new operator; each role may do more than the one before"),
        ROLES,
      ),
    )
    .action((name: string, options: LoginOptions) => login(invocation, name, options));

  withJsonOptions(operators.command("list"))
    .description("list operators by name, including removed operators")
    .action((options: JsonOptions) => list(invocation, options));

  withReason(withJsonOptions(operators.command("role")))
    .description("give an operator another role, at once")
    .argument("<name>", "the operator's name", nameOption)
    .addArgument(withWords(new Argument("<role>", "the new role"), ROLES))
    .action((name: string, role: Role, options: ChangeOptions) =>
      withDatabase(invocation, options, async ({ database, actor, now }) => {
        const { isChanged } = orRefuse(await setRole(database, { name, role }, { actor, now }));
        if (options.json) return printJson(invocation, { name, role, changed: isChanged });
        printFields(invocation, { name, role });
        if (!isChanged) printNote(invocation, "Nothing changed: the operator has this role already");
      }),
    );

  withConfirmation(withReason(withJsonOptions(operators.command("remove"))))
    .description("remove an operator for good, and end the operator's sessions; the name is not used again")
    .argument("<name>", "the operator's name", nameOption)
    .action((name: string, options: RemoveOptions) => remove(invocation, name, options));
}

type RemoveOptions = ConfirmOptions & ChangeOptions;

interface LoginOptions extends JsonOptions {
  readonly role?: Role;
}

/** Accepts the name of an operator or a token. */
export function nameOption(text: string): string {
  if (isName(text)) return text;
  throw new InvalidArgumentError(`The rule: ${NAME_RULE}`);
}

async function login(invocation: Invocation, name: string, options: LoginOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ config, database, actor, now }) => {
    const created = orRefuse(await loginOperator(database, { name, role: options.role }, { actor, now }));
    const { code, role, isNew } = created;
    const origin = findAdminUrl(config);
    const link = origin && `${origin}/console/enter#${code}`;
    const expires_at = toTimestamp(created.expiresAt);
    if (options.json) {
      return printJson(invocation, { name, role, created: isNew, link: link ?? null, code, expires_at });
    }
    // On a line of its own, because it is long.
    if (link !== undefined) printLine(invocation, link);
    printFields(invocation, { name, role, code, expires_at });
    if (isNew) printNote(invocation, `Created the operator ${name}`);
    printNote(
      invocation,
      link === undefined
        ? "No service serves operators here: set CLAVIGER_ADMIN_LISTEN, such as 127.0.0.1:8081, restart the " +
            "service, and log in within ten minutes; or create another code then"
        : "Open the link, or type the code at /console/enter: either works once, for ten minutes",
    );
  });
}

async function list(invocation: Invocation, options: JsonOptions): Promise<void> {
  await withDatabase(invocation, options, async ({ database }) => {
    const rows = (await listOperators(database)).map((operator) => ({
      name: operator.name,
      role: operator.role,
      state: operator.removedAt === null ? "active" : "removed",
      created_at: toTimestamp(operator.createdAt),
      removed_at: operator.removedAt && toTimestamp(operator.removedAt),
      last_seen_at: operator.lastSeenAt && toTimestamp(operator.lastSeenAt),
    }));
    if (options.json) printJson(invocation, rows);
    else printTable(invocation, rows);
  });
}

async function remove(invocation: Invocation, name: string, options: RemoveOptions): Promise<void> {
  await withDatabase(invocation, options, async (context) => {
    const { database, actor, now } = context;
    const by = { actor, now };
    const planned = orRefuse(await removeOperator(database, name, { ...by, isDryRun: true }));
    const has = counted(planned.sessions, "session");
    if (options.dryRun) {
      if (options.json) return printJson(invocation, { name, removed: false, dry_run: true, ...planned });
      return printLine(invocation, `Would remove ${name}, who has ${has}`);
    }
    const question = `Remove ${name}, who has ${has}? The name is not used again.`;
    await confirm(invocation, question, { ...context, options });
    const { sessions, tokens } = orRefuse(await removeOperator(database, name, by));
    if (options.json) return printJson(invocation, { name, removed: true, sessions, tokens });
    printLine(invocation, `Removed ${name}, and ended ${counted(sessions, "session")}`);
    if (tokens.length === 0) return;
    printNote(
      invocation,
      `Tokens that ${name} issued still work: ${tokens.join(", ")}; \`claviger tokens revoke NAME\` revokes one`,
    );
  });
}
