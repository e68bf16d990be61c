/** @jsxImportSource hono/jsx */
/** The page of an operator: the sessions and tokens, and what an admin can change. */
import { listOperators, listSessions, type Operator, ROLES } from "../../operators/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import type { Attempt } from "../frame/console/attempt.ts";
import { Action, Actions, Done, fieldsOf } from "../frame/console/components/action.tsx";
import { Select } from "../frame/console/components/form.tsx";
import { Heading, Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { OperatorState, Sessions } from "./lists.tsx";

const DONE = {
  role: "The operator has another role. It counts from the next request on.",
  remove: "The operator is removed: all sessions and codes have ended.",
} as const;

/** The most tokens that a sentence names. */
const MOST_NAMED = 50;

/** Shows an operator. After a refused change, its form is open and says why. */
export async function operatorPage(visit: Visit, attempt?: Attempt): Promise<Page | Refusal> {
  const { options, params, session, query, now } = visit;
  const [operators, sessions] = await Promise.all([
    listOperators(options.database),
    listSessions(options.database, { now }),
  ]);
  const operator = operators.find(({ name }) => name === params.name);
  if (operator === undefined) return refuse("NOT_FOUND", "No operator has this name");
  const { name, role, createdAt, removedAt, lastSeenAt } = operator;
  return {
    title: `Operator ${name}`,
    ...(attempt && { code: attempt.code }),
    body: (
      <>
        <Heading title={`Operator ${name}`}>
          <OperatorState operator={operator} />
        </Heading>
        <Done query={query} sentences={DONE} />
        {removedAt === null ? (
          <OperatorActions operator={operator} attempt={attempt} />
        ) : (
          attempt && <Notice kind="bad">{attempt.sentence}.</Notice>
        )}
        {removedAt !== null && operator.tokens.length > 0 && (
          <Notice kind="warning">
            <TokensLeft operator={operator} />
          </Notice>
        )}
        <Facts
          facts={[
            ["Role", role],
            ["Created", <Ago at={createdAt} now={now} />],
            ["Last seen", lastSeenAt ? <Ago at={lastSeenAt} now={now} /> : "never"],
            ...(removedAt ? ([["Removed", <Ago at={removedAt} now={now} />]] as const) : []),
            ["Tokens issued", <TokenLinks names={operator.tokens} />],
            ["Changes made", <a href={`/console/audit?actor=operator%3A${name}`}>Show in the audit log</a>],
          ]}
        />
        <h2>Sessions</h2>
        <Sessions
          sessions={sessions.filter((each) => each.operator === name)}
          ownId={session.id}
          caption="Sessions, newest first"
          now={now}
        />
      </>
    ),
  };
}

interface OperatorProps {
  readonly operator: Operator;
}

function OperatorActions({ operator, attempt }: OperatorProps & { readonly attempt: Attempt | undefined }) {
  const { name, role, tokens } = operator;
  const given = { path: `/console/access/operators/${name}`, attempt };
  const choices = ROLES.map((each) => ({ value: each, label: each }));
  return (
    <Actions>
      <Action name="role" label="Change role" submit="Change the role" {...given}>
        <p>The role counts from the next request on. The last admin cannot get a lower role.</p>
        <Select {...fieldsOf("role", attempt)("role", role)} label="Role" choices={choices} />
      </Action>
      <Action
        name="remove"
        label="Remove"
        submit="Remove the operator"
        isFinal
        repeat={{ what: "the name", text: name }}
        {...given}
      >
        <p>All sessions and codes end at once. The name is not used again.</p>
        {tokens.length > 0 && <TokensLeft operator={operator} />}
      </Action>
    </Actions>
  );
}

/** A removed operator may know the texts of these tokens. */
function TokensLeft({ operator: { name, tokens } }: OperatorProps) {
  return (
    <p>
      Tokens that {name} issued still work until you revoke them: <TokenLinks names={tokens} />
    </p>
  );
}

function TokenLinks({ names }: { readonly names: readonly string[] }) {
  if (names.length === 0) return "none";
  return (
    <>
      {names.slice(0, MOST_NAMED).map((name, index) => (
        <>
          {index > 0 && ", "}
          <a href={`/console/access/tokens/${name}`}>{name}</a>
        </>
      ))}
      {names.length > MOST_NAMED && ` and ${names.length - MOST_NAMED} more`}
    </>
  );
}
