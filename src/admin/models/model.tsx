/** @jsxImportSource hono/jsx */
/** One model: its versions, and how they are taken away. */

import { refuse } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import { escapeControls } from "../../base/text/mod.ts";
import { findRegistered, toBytes } from "../../models/mod.ts";
import { Facts, numeric, Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Day, Foreign, Lines, NONE, Size } from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { MODEL_ACTIONS, type ShownModel } from "./actions.tsx";
import { ListedPill } from "./models.tsx";
import { findSeenBy, type SeenBy } from "./seen_by.ts";
import { NoAddress, UploadForm } from "./upload.tsx";

export const MODEL_PAGE: DetailPage<ShownModel> = {
  path: "/models/:name",
  scope: "models:read",
  addressOf: ({ model }) => `/models/${encodeURIComponent(model.name)}`,
  actions: MODEL_ACTIONS,
  async find(visit) {
    const found = await findRegistered(visit.options.database, visit.params.name ?? "");
    if (found === undefined) return refuse("NOT_FOUND", "Cannot show model: no model has that name");
    return { ...found, seenBy: await findSeenBy(found.model, visit) };
  },
  show: showModel,
};

/** Which keys can see the listed version, and when they were counted. */
function Seen({ by: { keys, asOf }, now }: { readonly by: SeenBy; readonly now: Date }) {
  return (
    <>
      <Foreign text={keys} />
      {asOf && (
        <>
          , counted <Ago at={asOf} now={now} />
        </>
      )}
    </>
  );
}

function showModel({ model, versions, seenBy }: ShownModel, visit: Visit): Detail {
  const { may, now } = visit;
  const { listedVersion, owner } = model;
  const awaited = may("models:write") ? versions.filter(({ awaitsFile }) => awaitsFile) : [];
  return {
    title: escapeControls(model.name),
    script: ["copy", "upload"],
    above: (
      <>
        <NoAddress visit={visit} />
        <Facts
          facts={[
            ["State", <ListedPill isListed={listedVersion !== null} />],
            ["Listed version", listedVersion === null ? NONE : <Foreign text={listedVersion} />],
            seenBy !== undefined && ["Seen by", <Seen by={seenBy} now={now} />],
            ["Owner", owner ? <AccountLink {...owner} /> : "public: every key of the tier sees it"],
          ]}
        />
      </>
    ),
    below: (
      <>
        {awaited.map(({ version }) => (
          <UploadForm name={model.name} version={version} visit={visit} />
        ))}
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
              cell: ({ version, retiredAt, awaitsFile }) =>
                awaitsFile ? (
                  <span class="state expired">waits for its file</span>
                ) : retiredAt === null ? (
                  <ListedPill isListed={version === listedVersion} />
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
            numeric("Size", ({ sizeMb, isHosted, awaitsFile }) =>
              awaitsFile ? (
                NONE
              ) : (
                <Lines
                  text={<Size bytes={toBytes(sizeMb)} />}
                  more={isHosted ? "hosted here" : "at another address"}
                />
              ),
            ),
            { label: "Added", cell: ({ createdAt }) => <Ago at={createdAt} now={now} /> },
          ]}
          rows={versions}
        />
      </>
    ),
  };
}
