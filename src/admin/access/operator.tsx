/** @jsxImportSource hono/jsx */
/** The page of an operator: the sessions and tokens, and what an admin can change. */
import * as v from "valibot";
import { refuse } from "../../base/refusal.ts";
import { wordField } from "../../base/rule.ts";
import {
  listOperators,
  listSessions,
  type Operator,
  ROLES,
  removeOperator,
  setRole,
} from "../../operators/mod.ts";
import { type Action, action } from "../frame/console/action.ts";
import { optionsOf, Select } from "../frame/console/components/form.tsx";
import { Notice } from "../frame/console/components/layout.tsx";
import { Facts } from "../frame/console/components/table.tsx";
import { Ago, Foreign } from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import { TEXT } from "../frame/console/form_fields.ts";
import type { Visit } from "../frame/console/visit.ts";
import { OperatorState, Sessions } from "./lists.tsx";

/** The most tokens that a sentence names. */
const MOST_NAMED = 50;

const setRoleOf: Action<Operator> = action({
  name: "role",
  scope: "admin",
  label: "Change role",
  submit: "Change the role",
  needsFreshProof: true,
  toMany: true,
  // The groups at the provider decide the role of the others.
  fits: ({ removedAt, issuer }) => removedAt === null && issuer === null,
  Form: ({ of: { role }, field }) => (
    <>
      <p>The role applies from the next request. The last admin cannot get a lower role.</p>
      <Select {...field("role", role)} label="Role" choices={optionsOf(ROLES)} />
    </>
  ),
  entries: { role: v.pipe(TEXT, wordField(ROLES)) },
  perform: ({ of: { name }, fields: { role }, by, visit }) =>
    setRole(visit.options.database, { name, role }, by),
  done: { "operator.role": "The operator has another role. It applies from the next request." },
});

const remove: Action<Operator> = action({
  name: "remove",
  scope: "admin",
  label: "Remove",
  submit: "Remove the operator",
  isFinal: true,
  // A thief of a session must not shut the others out for good.
  needsFreshProof: true,
  fits: ({ removedAt }) => removedAt === null,
  repeat: { what: "the name", textOf: ({ name }) => name },
  Form: ({ of }) => (
    <>
      <p>All sessions and codes end at once. The name is not used again.</p>
      {of.tokens.length > 0 && <TokensLeft {...of} />}
    </>
  ),
  perform: ({ of: { name }, by, visit }) => removeOperator(visit.options.database, name, by),
  done: { "operator.remove": "The operator is removed: all sessions and codes have ended." },
});

export const OPERATOR_PAGE: DetailPage<Operator> = {
  path: "/access/operators/:name",
  scope: "admin",
  addressOf: ({ name }) => `/access/operators/${name}`,
  // An operator who is no admin any more may not open the page of an operator.
  addressAfter: ({ name }, { session }) => (name === session.operator ? "/access" : undefined),
  actions: [setRoleOf, remove],
  async find({ options, params }) {
    const operators = await listOperators(options.database);
    return operators.find(({ name }) => name === params.name) ?? UNKNOWN;
  },
  show: showOperator,
};

const UNKNOWN = refuse("NOT_FOUND", "No operator has this name");

async function showOperator(operator: Operator, { options, session, now }: Visit): Promise<Detail> {
  const { name, role, issuer, createdAt, removedAt, lastSeenAt, tokens } = operator;
  const sessions = await listSessions(options.database, { now });
  return {
    title: `Operator ${name}`,
    beside: <OperatorState {...operator} />,
    below: (
      <>
        {removedAt !== null && tokens.length > 0 && (
          <Notice kind="warning">
            <TokensLeft {...operator} />
          </Notice>
        )}
        <Facts
          facts={[
            ["Role", issuer === null ? role : `${role}, by the groups at the provider`],
            ["Logs in", issuer === null ? "by links of commands" : <Foreign text={issuer} />],
            ["Created", <Ago at={createdAt} now={now} />],
            ["Last seen", lastSeenAt ? <Ago at={lastSeenAt} now={now} /> : "never"],
            removedAt && ["Removed", <Ago at={removedAt} now={now} />],
            ["Tokens issued", <TokenLinks names={tokens} />],
            ["Changes made", <a href={`/console/audit?actor=operator%3A${name}`}>Show in the audit log</a>],
          ]}
        />
        <h2>Sessions</h2>
        <Sessions sessions={sessions.filter((each) => each.operator === name)} ownId={session.id} now={now} />
      </>
    ),
  };
}

/** Warns of the operator's tokens: whoever knows the text of a token can use it, even a removed operator. */
function TokensLeft({ name, tokens }: Operator) {
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
