/** @jsxImportSource hono/jsx */
/** One model: its versions, and how they are taken away. */
import type { Context } from "hono";
import * as v from "valibot";
import {
  findRegistered,
  type ModelVersion,
  type RegisteredModel,
  removeModel,
  retireVersion,
  toBytes,
} from "../../models/mod.ts";
import { isRefusal, type Refusal, refuse } from "../../refusal.ts";
import { renderCount } from "../../render_count.ts";
import { escapeControls } from "../../text/mod.ts";
import { answerChange } from "../frame/console/answer_change.ts";
import { type Attempt, TEXT } from "../frame/console/attempt.ts";
import { Action, Actions, Done, fieldsOf } from "../frame/console/components/action.tsx";
import { TextField } from "../frame/console/components/form.tsx";
import { Copyable, Heading, Notice } from "../frame/console/components/layout.tsx";
import { Facts, Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Day, Foreign, Lines, Size } from "../frame/console/components/values.tsx";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminEnv } from "../frame/options.ts";
import { addVersionCommand } from "./add_command.ts";
import { Listed } from "./models.tsx";

const SENTENCES = {
  removed: "The model was taken off the list.",
  retired: "The version was retired: its downloads end within a minute.",
} as const;
type ModelDone = keyof typeof SENTENCES;

type Found = NonNullable<Awaited<ReturnType<typeof findRegistered>>>;

/** The page of a model. After a refused form, `attempt` holds the form and the refusal. */
export async function modelPage(visit: Visit, attempt?: Attempt): Promise<Page | Refusal> {
  const found = await modelOf(visit, "show model");
  if (isRefusal(found)) return found;
  return {
    title: escapeControls(found.model.name),
    script: "copy",
    ...(attempt && { code: attempt.code }),
    body: <Model visit={visit} found={found} attempt={attempt} />,
  };
}

async function modelOf({ options, params }: Visit, what: string): Promise<Found | Refusal> {
  const found = await findRegistered(options.database, params.name ?? "");
  return found ?? refuse("NOT_FOUND", `Cannot ${what}: no model has that name`);
}

/** Takes a model off the list. */
export async function removeModelOfForm(visit: Visit, c: Context<AdminEnv>) {
  const found = await modelOf(visit, "remove model");
  if (isRefusal(found)) return found;
  const { name } = found.model;
  return await answerChange(visit, c, {
    action: "remove",
    entries: {},
    path: pathOf(name),
    show: modelPage,
    async perform(_, by): Promise<ModelDone | Refusal> {
      const removed = await removeModel(visit.options.database, name, by);
      return isRefusal(removed) ? removed : "removed";
    },
  });
}

const RETIRE = { version: v.pipe(TEXT, v.nonEmpty("It must be a version of this model")) };

/** Retires the version that was typed. */
export async function retireModelOfForm(visit: Visit, c: Context<AdminEnv>) {
  const found = await modelOf(visit, "retire model");
  if (isRefusal(found)) return found;
  const { name } = found.model;
  return await answerChange(visit, c, {
    action: "retire",
    entries: RETIRE,
    path: pathOf(name),
    show: modelPage,
    async perform({ version }, by): Promise<ModelDone | Refusal> {
      return (await retireVersion(visit.options.database, { name, version }, by)) ?? "retired";
    },
  });
}

/** Returns the path of a model's page. */
function pathOf(name: string): string {
  return `/console/models/${encodeURIComponent(name)}`;
}

interface ModelProps {
  readonly visit: Visit;
  readonly found: Found;
  readonly attempt: Attempt | undefined;
}

function Model({ visit, found, attempt }: ModelProps) {
  const { model, versions } = found;
  const { listedVersion, owner } = model;
  return (
    <>
      <Heading title={escapeControls(model.name)} />
      <Done query={visit.query} sentences={SENTENCES} />
      {attempt && !isOffered(attempt.action, found) && (
        <Notice kind="bad">
          <Foreign text={`${attempt.sentence}.`} />
        </Notice>
      )}
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
      {visit.may("models:write") && <Changes found={found} attempt={attempt} />}
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

/** Whether the page has the form of an action: another operator may have made the change already. */
function isOffered(action: string, { model, versions }: Found): boolean {
  return action === "remove"
    ? model.listedVersion !== null
    : versions.some(({ retiredAt }) => retiredAt === null);
}

function Changes({ found, attempt }: Omit<ModelProps, "visit">) {
  const { model, versions } = found;
  const given = { path: pathOf(model.name), attempt };
  const left = versions.find(({ retiredAt }) => retiredAt === null);
  return (
    <Actions>
      {isOffered("remove", found) && (
        <Action name="remove" label="Take off the list" submit="Take it off the list" {...given}>
          <p>
            Clients no longer see the model. They can still download its files by name and version. The next
            version that is added is listed again.
          </p>
        </Action>
      )}
      {left && (
        <Action name="retire" label="Retire a version" submit="Retire the version" isFinal {...given}>
          <p>
            The downloads of the version end within a minute, and no command brings it back. Its number is
            never used again.
          </p>
          <TextField
            {...fieldsOf("retire", attempt)("version")}
            label="Type the version to retire"
            hint={`Such as ${left.version}`}
            required
            maxlength={100}
          />
        </Action>
      )}
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
    </Actions>
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
