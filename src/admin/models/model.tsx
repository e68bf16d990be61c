/** @jsxImportSource hono/jsx */
/** One model: its versions, and how they are taken away. */
import { type FoundModel, findRegistered, toBytes } from "../../models/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";
import { renderCount } from "../../render_count.ts";
import { escapeControls } from "../../text/mod.ts";
import { Copyable } from "../frame/console/components/layout.tsx";
import { Facts, numeric, Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Day, Foreign, Lines, NONE, Size } from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { MODEL_ACTIONS } from "./actions.tsx";
import { addVersionCommand } from "./add_command.ts";
import { Listed } from "./models.tsx";

/** The page of a model, with its actions. */
export const MODEL_PAGE: DetailPage<FoundModel> = {
  path: "/models/:name",
  scope: "models:read",
  addressOf: ({ model }) => `/models/${encodeURIComponent(model.name)}`,
  actions: MODEL_ACTIONS,
  find: findNamed,
  show: showModel,
};

/** Finds the model that the path names. */
async function findNamed({ options, params }: Visit): Promise<FoundModel | Refusal> {
  const found = await findRegistered(options.database, params.name ?? "");
  return found ?? refuse("NOT_FOUND", "Cannot show model: no model has that name");
}

function showModel({ model, versions }: FoundModel, { may, now }: Visit): Detail {
  const { listedVersion, owner } = model;
  return {
    title: escapeControls(model.name),
    script: "copy",
    above: (
      <Facts
        facts={[
          ["State", <Listed isListed={listedVersion !== null} />],
          ["Listed version", listedVersion === null ? NONE : <Foreign text={listedVersion} />],
          ["Owner", owner ? <AccountLink {...owner} /> : "public: every key of the tier sees it"],
        ]}
      />
    ),
    afterActions: may("models:write") && (
      <details class="action" name="action">
        <summary>Add a version…</summary>
        <div class="about">
          <p>
            Copy the file to the host of the service, and run this command there with the new version. The
            list then shows it.
          </p>
          <Copyable id="add-command" text={addVersionCommand(model)} label="Copy the command" />
        </div>
      </details>
    ),
    below: (
      <>
        <h2>Versions</h2>
        <Table
          caption={
            versions.length < model.versions
              ? `The newest ${versions.length} of ${renderCount(model.versions)} versions`
              : "Newest first"
          }
          columns={[
            { label: "Version", cell: ({ version }) => <Foreign text={version} /> },
            {
              label: "State",
              cell: ({ version, retiredAt }) =>
                retiredAt === null ? (
                  <Listed isListed={version === listedVersion} />
                ) : (
                  <Lines text={<span class="state revoked">retired</span>} more={<Day at={retiredAt} />} />
                ),
            },
            { label: "Tier", cell: ({ requiresLicense }) => requiresLicense },
            { label: "Type", cell: ({ type, paradigm }) => <Lines text={type} more={paradigm} /> },
            numeric(
              "Features, classes",
              ({ nFeatures, nClasses }) => `${renderCount(nFeatures)}, ${renderCount(nClasses)}`,
            ),
            numeric("Size", ({ sizeMb, isHosted }) => (
              <Lines
                text={<Size bytes={toBytes(sizeMb)} />}
                more={isHosted ? "hosted here" : "at another address"}
              />
            )),
            { label: "Added", cell: ({ createdAt }) => <Ago at={createdAt} now={now} /> },
          ]}
          rows={versions}
        />
      </>
    ),
  };
}
