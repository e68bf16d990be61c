/** @jsxImportSource hono/jsx */
import * as v from "valibot";
import { toId } from "../../ids.ts";
import { listRegistered, type RegisteredModel, toBytes } from "../../models/mod.ts";
import { isRefusal, type Refusal } from "../../refusal.ts";
import { renderCount } from "../../render_count.ts";
import { idField } from "../frame/api/list_fields.ts";
import { Copyable, Heading } from "../frame/console/components/layout.tsx";
import { type ListPage, Pages, ROWS, takePage } from "../frame/console/components/list.tsx";
import { Table } from "../frame/console/components/table.tsx";
import { AccountLink, Foreign, Lines, Size } from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { addCommand } from "./add_command.ts";

const ENTRIES = { after: v.optional(idField("after", "mdl")) } as const;

/** The list of models, newest first, including models that clients do not see. */
export async function modelsPage({ options, query, may }: Visit): Promise<Page | Refusal> {
  const { values } = readConditions(query, ENTRIES);
  if (isRefusal(values)) return values;
  const { after: afterUuid } = values;
  const found = await listRegistered(options.database, { afterUuid, limit: ROWS + 1 });
  return {
    title: "Models",
    script: "copy",
    body: (
      <Models
        page={takePage(found)}
        isFirst={afterUuid === undefined}
        command={may("models:write") ? addCommand(options.brand) : undefined}
      />
    ),
  };
}

interface ModelsProps {
  readonly page: ListPage<RegisteredModel>;
  readonly isFirst: boolean;
  readonly command: string | undefined;
}

function Models({ page, isFirst, command }: ModelsProps) {
  const isEmpty = page.rows.length === 0 && isFirst;
  return (
    <>
      <Heading title="Models" />
      {isEmpty && (
        <p class="empty">
          There is no model yet: clients get an empty list.
          {command ? " Add the first one with the command below." : " An editor or an admin can add one."}
        </p>
      )}
      {page.rows.length > 0 && <Table caption="Models, newest first" columns={COLUMNS} rows={page.rows} />}
      <Pages path="/console/models" after={page.last && toId("mdl", page.last.uuid)} isFirst={isFirst} />
      {command && <AddModel command={command} isOpen={isEmpty} />}
    </>
  );
}

function AddModel({ command, isOpen }: { readonly command: string; readonly isOpen: boolean }) {
  return (
    <details class="add" open={isOpen}>
      <summary>Add a model</summary>
      <p>
        Copy the file to the host of the service, and run this command there with your values. The command{" "}
        <code>claviger models add --help</code> says what each option means.
      </p>
      <Copyable id="add-command" text={command} label="Copy the command" />
    </details>
  );
}

const COLUMNS = [
  {
    label: "Model",
    cell: ({ name }: RegisteredModel) => (
      <a href={`/console/models/${encodeURIComponent(name)}`}>
        <Foreign text={name} />
      </a>
    ),
  },
  {
    label: "State",
    cell: ({ listedVersion }: RegisteredModel) => <Listed isListed={listedVersion !== null} />,
  },
  {
    label: "Version",
    cell: ({ shown, versions }: RegisteredModel) => (
      <Lines text={<Foreign text={shown.version} />} more={versions > 1 && `of ${renderCount(versions)}`} />
    ),
  },
  { label: "Tier", cell: ({ shown }: RegisteredModel) => shown.requiresLicense },
  {
    label: "Owner",
    cell: ({ owner }: RegisteredModel) =>
      owner ? <AccountLink {...owner} /> : <span class="muted">public</span>,
  },
  {
    label: "Size",
    isNumeric: true,
    cell: ({ shown }: RegisteredModel) => <Size bytes={toBytes(shown.sizeMb)} />,
  },
  { label: "Type", cell: ({ shown }: RegisteredModel) => <Lines text={shown.type} more={shown.paradigm} /> },
];

/** Whether clients see the model. */
export function Listed({ isListed }: { readonly isListed: boolean }) {
  return <span class={`state ${isListed ? "active" : "expired"}`}>{isListed ? "listed" : "not listed"}</span>;
}
