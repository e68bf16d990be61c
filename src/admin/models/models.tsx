/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { ORDERS } from "../../base/condition.ts";
import { idRule, toId } from "../../base/ids.ts";
import { renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import { countRegistered, listRegistered, type RegisteredModel, toBytes } from "../../models/mod.ts";
import { bothWays } from "../frame/console/components/list.tsx";
import { numeric } from "../frame/console/components/table.tsx";
import { AccountLink, Foreign, Lines, NONE, Size } from "../frame/console/components/values.tsx";
import type { List } from "../frame/console/list_page.tsx";
import { ADD_PATH } from "./add_model.tsx";

const ENTRIES = {
  sort: v.optional(v.picklist([...ORDERS, "name"], `must be one of ${[...ORDERS, "name"].join(", ")}`)),
  after: v.optional(parsedField(idRule("mdl"))),
} as const;

/** The list of models, including models that clients do not see. */
export const MODELS: List<typeof ENTRIES, RegisteredModel> = {
  title: "Models",
  path: "/models",
  scope: "models:read",
  entries: ENTRIES,
  find: ({ options: { database } }, { sort = "newest" }) =>
    bothWays(
      { newestFirst: sort === "newest", by: sort === "name" ? ("name" as const) : undefined },
      {
        list: (part) => listRegistered(database, part),
        count: (part) => countRegistered(database, part),
      },
    ),
  toAfter: ({ uuid }) => toId("mdl", uuid),
  columns: () => [
    {
      label: "Model",
      sorts: ["name", "newest", "oldest"],
      cell: ({ name }) => (
        <a href={`/console/models/${encodeURIComponent(name)}`}>
          <Foreign text={name} />
        </a>
      ),
    },
    { label: "State", cell: ({ listedVersion }) => <ListedPill isListed={listedVersion !== null} /> },
    {
      label: "Version",
      cell: ({ shown, versions }) => (
        <Lines text={<Foreign text={shown.version} />} more={versions > 1 && `of ${renderCount(versions)}`} />
      ),
    },
    { label: "Tier", cell: ({ shown }) => shown.requiresLicense },
    {
      label: "Owner",
      cell: ({ owner }) => (owner ? <AccountLink {...owner} /> : <span class="muted">public</span>),
    },
    {
      ...numeric<RegisteredModel>("Size", ({ shown }) =>
        shown.awaitsFile ? NONE : <Size bytes={toBytes(shown.sizeMb)} />,
      ),
      needs: "middle",
    },
    { label: "Type", needs: "wide", cell: ({ shown }) => <Lines text={shown.type} more={shown.paradigm} /> },
  ],
  order: "newest",
  noun: "model",
  noneMeets: "There are no more models.",
  none: ({ may }) =>
    `There is no model yet: clients get an empty list. ${
      may("models:write") ? "Add the first one with the button above." : "An editor or an admin can add one."
    }`,
  beside: ({ may }) =>
    may("models:write") && (
      <a class="button" href={`/console${ADD_PATH}`}>
        Add a model
      </a>
    ),
};

/** Whether clients see the model. */
export function ListedPill({ isListed }: { readonly isListed: boolean }) {
  return <span class={`state ${isListed ? "active" : "expired"}`}>{isListed ? "listed" : "not listed"}</span>;
}
