/** @jsxImportSource hono/jsx */
/** One model: its versions, and how they are taken away. */
import { findRegistered, type ModelVersion, type RegisteredModel, toBytes } from "../../models/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { renderCount } from "../../render_count.ts";
import { escapeControls } from "../../text/mod.ts";
import type { ActionPage } from "../frame/console/action.ts";
import { Actions, LastAction } from "../frame/console/components/action.tsx";
import { Copyable, Heading } from "../frame/console/components/layout.tsx";
import { Facts, Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Day, Foreign, Lines, Size } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { RefusedForm } from "../frame/console/refused_form.ts";
import type { Visit } from "../frame/console/visit.ts";
import { MODEL_ACTIONS, type NamedModel } from "./actions.tsx";
import { addVersionCommand } from "./add_command.ts";
import { Listed } from "./models.tsx";

/** The page of a model, with its actions. */
export const MODEL_PAGE: ActionPage<NamedModel, NamedModel> = {
  path: "/models/:name",
  addressOf: ({ model }) => `/models/${encodeURIComponent(model.name)}`,
  actions: MODEL_ACTIONS,
  find: findNamedModel,
  show: modelPage,
};

/** The page of a model. After a form was refused, it is open and says why. */
async function modelPage(visit: Visit, refused?: RefusedForm): Promise<Page | Refusal> {
  const found = await findNamedModel(visit);
  if (isRefusal(found)) return found;
  return {
    title: escapeControls(found.model.name),
    script: "copy",
    body: <Model visit={visit} found={found} refused={refused} />,
  };
}

/** Finds the model that the path names. */
async function findNamedModel({ options, params }: Visit): Promise<NamedModel | Refusal> {
  const found = await findRegistered(options.database, params.name ?? "");
  return found ?? refuse("NOT_FOUND", "Cannot show model: no model has that name");
}

interface ModelProps {
  readonly visit: Visit;
  readonly found: NamedModel;
  readonly refused: RefusedForm | undefined;
}

function Model({ visit, found, refused }: ModelProps) {
  const { model, versions } = found;
  const { listedVersion, owner } = model;
  const shown = { page: MODEL_PAGE, of: found, visit, refused };
  return (
    <>
      <Heading title={escapeControls(model.name)} />
      <LastAction {...shown} />
      <Facts
        facts={[
          ["State", <Listed isListed={listedVersion !== null} />],
          [
            "Listed version",
            listedVersion === null ? <span class="muted">none</span> : <Foreign text={listedVersion} />,
          ],
          ["Owner", owner ? <AccountLink {...owner} /> : "public: every key of the tier sees it"],
        ]}
      />
      <Actions {...shown}>
        {visit.may("models:write") && (
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
        )}
      </Actions>
      <h2>Versions</h2>
      <Table
        caption={
          versions.length < model.versions
            ? `The newest ${versions.length} of ${renderCount(model.versions)} versions`
            : "Newest first"
        }
        columns={columnsOf(model, visit.now)}
        rows={versions}
      />
    </>
  );
}

function columnsOf({ listedVersion }: RegisteredModel, now: Date) {
  return [
    { label: "Version", cell: ({ version }: ModelVersion) => <Foreign text={version} /> },
    {
      label: "State",
      cell: ({ version, retiredAt }: ModelVersion) =>
        retiredAt === null ? (
          <Listed isListed={version === listedVersion} />
        ) : (
          <Lines text={<span class="state revoked">retired</span>} more={<Day at={retiredAt} />} />
        ),
    },
    { label: "Tier", cell: ({ requiresLicense }: ModelVersion) => requiresLicense },
    { label: "Type", cell: ({ type, paradigm }: ModelVersion) => <Lines text={type} more={paradigm} /> },
    {
      label: "Features, classes",
      isNumeric: true,
      cell: ({ nFeatures, nClasses }: ModelVersion) => `${renderCount(nFeatures)}, ${renderCount(nClasses)}`,
    },
    {
      label: "Size",
      isNumeric: true,
      cell: ({ sizeMb, isHosted }: ModelVersion) => (
        <Lines
          text={<Size bytes={toBytes(sizeMb)} />}
          more={isHosted ? "hosted here" : "at another address"}
        />
      ),
    },
    { label: "Added", cell: ({ createdAt }: ModelVersion) => <Ago at={createdAt} now={now} /> },
  ];
}
