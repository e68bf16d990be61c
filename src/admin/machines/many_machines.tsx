/** @jsxImportSource hono/jsx */
/**
 * The page on which the machines of a list are released together: it says before what will happen, and afterwards what was
 * changed. Its forms keep the ids, so what was counted is what is released.
 */
import { parseId } from "../../base/ids.ts";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import {
  countReleases,
  describeForeseen,
  describeReleases,
  findActive,
  findMachineFilter,
  foreseeReleases,
  type MachineSummary,
  MOST_RELEASED,
  RELEASES_REQUEST_MS,
  type Release,
  releaseMachines,
} from "../../licensing/machines/mod.ts";
import { type Action, action } from "../frame/console/action.ts";
import { HiddenFields, SelectionForm, selectAgainPage } from "../frame/console/components/selection.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { Foreign } from "../frame/console/components/values.tsx";
import { describeAll, nameConditions, readConditions } from "../frame/console/conditions.ts";
import { type DetailPage, detailRoutes, openPage } from "../frame/console/detail_page.tsx";
import type { Page } from "../frame/console/page.tsx";
import { form, page } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import { columnsAt, MACHINES } from "./machines.tsx";

interface Selection {
  /** Those that are active now. */
  readonly machines: readonly MachineSummary[];
  /** Those that the form names; empty before the page has counted them. */
  readonly uuids: readonly string[];
  /** More machines meet the conditions. */
  readonly hasMore: boolean;
  /** The conditions of the list, as its address has them. */
  readonly conditions: string;
}

const releaseAll: Action<Selection> = action({
  name: "release",
  scope: "machines:release",
  label: "Release them",
  submit: ({ machines }) => `Release ${counted(machines.length, "machine")}`,
  fits: ({ machines }) => machines.length > 0,
  Form: ({ of: { machines, hasMore, conditions } }) => (
    <>
      <p>
        Nothing is changed yet. <b>{`${describeForeseen(foreseeReleases(machines))}.`}</b>
      </p>
      {hasMore && (
        <p>{`More active machines meet the conditions: release these ${renderCount(machines.length)} first.`}</p>
      )}
      <p>
        The next heartbeat of each machine is refused. It can be activated again while a place is free. More
        than ten machines need a login of the last five minutes.
      </p>
      <HiddenFields of={Object.entries(fieldsOf(machines, conditions))} />
    </>
  ),
  ends: ({ of }) => of.uuids.length,
  async perform({ of, by, visit }) {
    if (of.uuids.length === 0) return NONE;
    const { database, clock } = visit.options;
    const releases = await releaseMachines(database, of.uuids, { ...by, clock, mostMs: RELEASES_REQUEST_MS });
    return releasedPage(releases, of);
  },
});

const MANY_PAGE: DetailPage<Selection> = {
  path: "/machines/many",
  scope: "machines:release",
  addressOf: () => "/machines/many",
  actions: [releaseAll],
  find: findSelection,
  show: ({ machines, uuids, conditions }, { now }) => ({
    title: counted(machines.length, "active machine"),
    above: (
      <p>
        Selected:{" "}
        <Foreign
          text={`${uuids.length === 0 ? "" : `${counted(uuids.length, "machine")} of `}${describeAll(conditions, MACHINES)}`}
        />
        .
      </p>
    ),
    below: (
      <>
        <Table
          caption="In the order of their first activation"
          columns={columnsAt(now)}
          rows={machines}
          none={<p class="empty">No active machine meets these conditions.</p>}
        />
        <SelectionForm address={MANY_PAGE.path} fields={fieldsOf(machines, conditions)} />
        <BackToList conditions={conditions} />
      </>
    ),
  }),
};

/** They are forms, because so many ids do not fit into an address. After a login the address opens the form again. */
export const MANY_MACHINES_ROUTES = [
  page(MANY_PAGE.path, MANY_PAGE.scope, ({ query }, c) => {
    const open = query.get("open");
    return open === null ? c.redirect("/console/machines", 303) : selectAgainPage({ ...NONE_SELECTED, open });
  }),
  form(MANY_PAGE.path, MANY_PAGE.scope, (visit) => openPage(MANY_PAGE, visit)),
  ...detailRoutes(MANY_PAGE).filter(({ method }) => method === "POST"),
];

const NONE_SELECTED = {
  ...{ title: "Machines", noun: "machine", list: MACHINES.path, address: MANY_PAGE.path },
  fields: fieldsOf([], ""),
};

function fieldsOf(machines: readonly MachineSummary[], conditions: string) {
  return { conditions, id: machines.map(({ id }) => id).join(" ") };
}

/** Finds the machines that a form names, or else those that meet its conditions. */
async function findSelection({ form, options: { database } }: Visit): Promise<Selection | Refusal> {
  const conditions = form.get("conditions") ?? "";
  const named = (form.get("id") ?? "").split(" ").flatMap((id) => parseId("mch", id) ?? []);
  if (named.length > MOST_RELEASED)
    return refuse("INVALID_REQUEST", `At most ${MOST_RELEASED} machines are released at once`);
  if (named.length > 0) {
    const { machines } = await findActive(database, { uuids: named });
    return { machines, uuids: named, hasMore: false, conditions };
  }
  const { values, entered } = readConditions(new URLSearchParams(conditions), MACHINES.entries);
  if (nameConditions(entered).length === 0) return NONE;
  const filter = isRefusal(values)
    ? values
    : await findMachineFilter(database, { ...values, sort: "oldest" });
  if (isRefusal(filter)) return filter;
  return { ...(await findActive(database, filter)), uuids: [], conditions };
}

const NONE = refuse("INVALID_REQUEST", "No machine is selected: show the machines that meet some condition");

/** The page after the releases: what was changed, and why some were not. */
function releasedPage(releases: readonly Release[], { machines, conditions }: Selection): Page {
  const refused = releases.flatMap(({ id, result }) => (isRefusal(result) ? [{ id, result }] : []));
  const left = machines.filter(({ id }) => refused.some((each) => each.id === id));
  return {
    title: `Released: ${counted(releases.length - refused.length, "machine")}`,
    body: (
      <>
        <p tabindex={-1} autofocus role="status">{`${describeReleases(countReleases(releases))}.`}</p>
        {refused.length > 0 && (
          <ul>
            {refused.map(({ id, result }) => (
              <li>
                <a href={`/console/machines/${id}`}>
                  <code>{`…${id.slice(-6)}`}</code>
                </a>{" "}
                <Foreign text={`${result.sentence}.`} />
              </li>
            ))}
          </ul>
        )}
        {left.length > 0 && (
          <form method="post" action="/console/machines/many?open=release">
            <HiddenFields of={Object.entries(fieldsOf(left, conditions))} />
            <button type="submit" class="quiet">
              {`Try again with ${left.length}…`}
            </button>
          </form>
        )}
        <BackToList conditions={conditions} />
      </>
    ),
  };
}

function BackToList({ conditions }: Pick<Selection, "conditions">) {
  return (
    <p>
      <a href={`/console/machines?${conditions}`}>Back to the machines</a>
    </p>
  );
}
