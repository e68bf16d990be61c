/** @jsxImportSource hono/jsx */
/** The parts that the pages of Access share. */

import { renderCount } from "../../base/render_count.ts";
import { type ListedSession, type ListedToken, limitsOfToken, type Operator } from "../../operators/mod.ts";
import { type Column, numeric, Table, type TableProps } from "../frame/console/components/table.tsx";
import { Ago, Day, Foreign, Lines, NONE, Pill, type PillProps } from "../frame/console/components/values.tsx";

/** The most rows of a table. There are few operators and tokens; the commands list all of them. */
const MOST_ROWS = 50;

interface SessionsProps {
  readonly sessions: readonly ListedSession[];
  readonly ownId: string;
  readonly now: Date;
}

/** Sessions, each with the button that ends it. */
export function Sessions({ sessions, ownId, now }: SessionsProps) {
  const columns: readonly Column<ListedSession>[] = [
    {
      label: "Operator",
      cell: ({ id, operator }) => (
        <Lines text={<span class="name">{operator}</span>} more={id === ownId && "this session"} />
      ),
    },
    { label: "Role", cell: ({ role }) => role },
    { label: "Began", cell: ({ createdAt }) => <Ago at={createdAt} now={now} /> },
    { label: "Last seen", cell: ({ lastSeenAt }) => <Ago at={lastSeenAt} now={now} /> },
    {
      label: "End",
      cell: ({ id, operator }) => (
        <form method="post" action={`/console/access/sessions/${id}/end`}>
          <button
            type="submit"
            class="quiet"
            aria-label={id === ownId ? "Log out here" : `End a session of ${operator}`}
          >
            {id === ownId ? "Log out" : "End"}
          </button>
        </form>
      ),
    },
  ];
  const none = <p class="muted">No session.</p>;
  return <FirstRows caption="Sessions, newest first" columns={columns} rows={sessions} none={none} />;
}

const TONES: Readonly<Record<ListedToken["state"], PillProps["tone"]>> = {
  active: "good",
  disabled: "warning",
  expired: "expired",
  revoked: "bad",
};

/** Shows the state of a token. */
export function StateOfToken({ state }: Pick<ListedToken, "state">) {
  return <Pill tone={TONES[state]}>{state}</Pill>;
}

/** Shows whether an operator may log in. */
export function OperatorState({ removedAt }: Pick<Operator, "removedAt">) {
  return removedAt === null ? <Pill tone="good">active</Pill> : <Pill tone="expired">removed</Pill>;
}

function NameLink({ of, name }: Readonly<Record<"of" | "name", string>>) {
  return (
    <a class="name" href={`/console/access/${of}/${name}`}>
      {name}
    </a>
  );
}

/** The columns of operators. */
export function operatorColumns(now: Date): readonly Column<Operator>[] {
  return [
    {
      label: "Operator",
      cell: ({ name }) => <NameLink of="operators" name={name} />,
    },
    { label: "Role", cell: ({ role }) => role },
    { label: "State", cell: OperatorState },
    { label: "Created", cell: ({ createdAt }) => <Day at={createdAt} now={now} /> },
    { label: "Last seen", cell: ({ lastSeenAt }) => <Ago at={lastSeenAt} now={now} /> },
    numeric("Tokens issued", ({ tokens }) => renderCount(tokens.length)),
  ];
}

/** Tokens, each with a link to its page. Tokens that work come first. */
export function Tokens({ tokens, now }: { readonly tokens: readonly ListedToken[]; readonly now: Date }) {
  const columns: readonly Column<ListedToken>[] = [
    {
      label: "Token",
      cell: ({ name }) => <NameLink of="tokens" name={name} />,
    },
    { label: "State", cell: StateOfToken },
    { label: "Scopes", cell: (token) => limitsOfToken(token).scopes },
    { label: "Limits", cell: (token) => <Limits token={token} /> },
    { label: "Created by", needs: "middle", cell: ({ createdBy }) => <Foreign text={createdBy} /> },
    { label: "Expires", cell: ({ expiresAt }) => <Ago at={expiresAt} now={now} /> },
    { label: "Last used", cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} now={now} /> },
  ];
  const ordered = tokens.toSorted((a, b) => Number(a.state === "revoked") - Number(b.state === "revoked"));
  return (
    <FirstRows
      caption="Tokens by name; revoked tokens last"
      columns={columns}
      rows={ordered}
      none={<p class="empty">No token was issued. A program needs one to use the API.</p>}
      command="claviger tokens list"
    />
  );
}

function Limits({ token }: { readonly token: ListedToken }) {
  const { tiers, mode } = limitsOfToken(token);
  const [first, ...others] = token.sources ?? [];
  const from = others.length === 0 ? first : `${first} and ${others.length} more`;
  const parts = [
    ...(tiers === "all" ? [] : [`tiers ${tiers}`]),
    ...(mode === "both" ? [] : [`mode ${mode}`]),
    ...(from === undefined ? [] : [`from ${from}`]),
  ];
  return parts.length === 0 ? NONE : <Foreign text={parts.join("; ")} />;
}

interface FirstRowsProps<Row> extends TableProps<Row> {
  /** The command that lists all rows. */
  readonly command?: string;
}

/** A table of the first rows. It says how many rows are left out, and what lists them. */
export function FirstRows<Row>({ command, rows, ...table }: FirstRowsProps<Row>) {
  const left = rows.length - MOST_ROWS;
  return (
    <>
      <Table {...table} rows={rows.slice(0, MOST_ROWS)} />
      {left > 0 && (
        <p class="muted">
          {`${renderCount(left)} more are not shown.`}
          {command && (
            <>
              {" "}
              The command <code>{command}</code> lists all.
            </>
          )}
        </p>
      )}
    </>
  );
}
