/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { ORDERS } from "../../base/condition.ts";
import { idRule, parseId } from "../../base/ids.ts";
import { isRefusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import {
  countMachines,
  countTaken,
  findActive,
  findMachineFilter,
  isHolding,
  listMachines,
  MACHINE_CONDITIONS,
  MACHINE_STATES,
  type MachineFilter,
  type MachineState,
  type MachineSummary,
} from "../../licensing/machines/mod.ts";
import { conditionFields } from "../frame/api/fields.ts";
import { choicesOf, Select, TextField } from "../frame/console/components/form.tsx";
import { bothWays, OrderField, toAddress } from "../frame/console/components/list.tsx";
import { type Column, Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Lines, Name, Pill } from "../frame/console/components/values.tsx";
import { type Asked, fieldOf, nameConditions, readConditions } from "../frame/console/conditions.ts";
import type { List } from "../frame/console/list_page.tsx";
import type { Visit } from "../frame/console/visit.ts";

const ENTRIES = {
  ...conditionFields(MACHINE_CONDITIONS),
  after: v.optional(parsedField(idRule("mch"))),
} as const;

/** The list of machines. */
export const MACHINES: List<typeof ENTRIES, MachineSummary> = {
  title: "Machines",
  path: "/machines",
  scope: "machines:read",
  entries: ENTRIES,
  async find(visit, conditions) {
    const { database } = visit.options;
    const filter = await findMachineFilter(database, { sort: "newest", ...conditions });
    if (isRefusal(filter)) return filter;
    return {
      ...bothWays(filter, {
        list: (filter) => listMachines(database, { filter }),
        count: (filter) => countMachines(database, filter),
      }),
      note: await releaseAllOf(visit, filter),
    };
  },
  toAfter: ({ id }) => id,
  Fields,
  columns: ({ now }) => [
    ...columnsAt(now, ["newest", "oldest"]),
    { label: "Account", cell: ({ userId, email }) => <AccountLink id={userId} email={email} /> },
  ],
  order: "newest",
  noun: "machine",
  noneMeets: "No machine meets these conditions.",
  none: () =>
    "No machine was activated yet. A license counts machines if it has a machine limit: “Change machines” on the page of its key sets one.",
};

/** The button that leads to the release of all machines that meet the conditions; nothing without a condition. */
async function releaseAllOf({ query, options: { database }, may }: Visit, filter: MachineFilter) {
  const { entered } = readConditions(query, { ...ENTRIES, before: ENTRIES.after });
  if (!may("machines:release") || nameConditions(entered).length === 0) return null;
  const { machines, hasMore } = await findActive(database, filter);
  if (machines.length === 0) return null;
  const these = counted(machines.length, "active machine");
  return (
    <form method="post" action="/console/machines/many?open=release">
      <input type="hidden" name="conditions" value={String(new URLSearchParams(entered))} />
      <button type="submit" class="quiet">
        {hasMore ? `Release the first ${these}…` : `Release all ${these}…`}
      </button>
    </form>
  );
}

function Fields(asked: Asked<typeof ENTRIES>) {
  const field = (name: keyof typeof ENTRIES) => fieldOf(asked, name);
  return (
    <>
      <TextField {...field("account")} label="Account" hint="Its id or e-mail" />
      <TextField {...field("license")} label="License" hint="Its id" />
      <TextField {...field("key")} label="Key" hint="The id of a key of the license" />
      <TextField {...field("name")} label="Name" type="search" hint="A part of it" />
      <Select {...field("state")} label="State" choices={choicesOf(MACHINE_STATES)} />
      <TextField {...field("unseen")} label="Not seen for" hint="Days or hours, such as 30d or 12h" />
      <OrderField {...field("sort")} orders={ORDERS} />
    </>
  );
}

/** The columns of machines: which one, in which state, since when, and until when. */
export function columnsAt(
  now: Date,
  sorts: Column<MachineSummary>["sorts"] = [],
): readonly Column<MachineSummary>[] {
  return [
    {
      label: "Machine",
      sorts,
      cell: ({ id, name, platform }) => (
        <Lines
          text={
            <a href={`/console/machines/${id}`}>
              {name === null ? <code>{`…${id.slice(-6)}`}</code> : <Name text={name} />}
            </a>
          }
          more={platform !== null && <Name text={platform} />}
        />
      ),
    },
    { label: "State", cell: ({ state }) => <MachineStatePill state={state} /> },
    {
      label: "Since",
      isOrdered: true,
      needs: "wide",
      cell: ({ activatedAt }) => <Ago at={activatedAt} now={now} />,
    },
    { label: "Last seen", needs: "middle", cell: ({ lastSeenAt }) => <Ago at={lastSeenAt} now={now} /> },
    { label: "Place taken until", cell: (machine) => <TakenUntil machine={machine} now={now} /> },
  ];
}

/** The state of a machine as a colored word. */
export function MachineStatePill({ state }: { readonly state: MachineState }) {
  const tones = { active: "good", offline: "warning", released: "expired", ended: "expired" } as const;
  return <Pill tone={tones[state]}>{state}</Pill>;
}

/** Until when the machine keeps its place taken. */
export function TakenUntil({ machine, now }: { readonly machine: MachineSummary; readonly now: Date }) {
  if (!isHolding(machine)) return <span class="muted">free</span>;
  return machine.takenUntil === null ? "it is released" : <Ago at={machine.takenUntil} now={now} />;
}

/** The machines that a panel shows. */
const PANEL_ROWS = 10;

/** The license of a key, or the account of several licenses. */
type Owner = { readonly license: string } | { readonly account: string };

/** Reads the newest machines of a license or an account; undefined if the operator may not see machines. */
export async function readMachines({ options: { database }, may }: Visit, of: Owner) {
  if (!may("machines:read")) return undefined;
  const shown = { newestFirst: true, limit: PANEL_ROWS + 1 };
  if ("account" in of) {
    const accountUuid = parseId("usr", of.account);
    return { rows: await listMachines(database, { filter: { ...shown, accountUuid } }) };
  }
  const licenseUuid = parseId("lic", of.license) ?? "";
  const [rows, taken] = await Promise.all([
    listMachines(database, { filter: { ...shown, licenseUuid } }),
    countTaken(database, licenseUuid),
  ]);
  return { rows, taken };
}

interface PanelProps {
  /** Undefined if the operator may not see machines. `taken` counts the places of one license. */
  readonly machines: { readonly rows: readonly MachineSummary[]; readonly taken?: number } | undefined;
  readonly of: Owner;
  /** The number of places of one license; null if machines are not counted. */
  readonly places?: number | null;
  readonly now: Date;
}

/** The newest machines of a license or an account; nothing if there are none. */
export function MachinesPanel({ machines, of, places = null, now }: PanelProps) {
  if (machines === undefined || (machines.rows.length === 0 && places === null)) return null;
  const { rows, taken } = machines;
  const isPart = rows.length > PANEL_ROWS;
  return (
    <section aria-labelledby="machines-list">
      <h2 id="machines-list">Machines</h2>
      {taken !== undefined && places !== null && (
        <p>
          {`Places taken: ${renderCount(taken)} of ${renderCount(places)}. `}
          {taken >= places && <Pill tone="warning">all places taken</Pill>}
          {taken > places && " They keep their places. No other machine gets one until fewer are taken."}
        </p>
      )}
      {rows.length > 0 && (
        <Table
          caption={isPart ? `The ${PANEL_ROWS} newest ones` : "Newest first"}
          columns={columnsAt(now)}
          rows={rows.slice(0, PANEL_ROWS)}
        />
      )}
      {isPart && (
        <p>
          <a href={toAddress("/console/machines", { ...of })}>Show all machines</a>
        </p>
      )}
    </section>
  );
}
