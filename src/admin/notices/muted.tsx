/** @jsxImportSource hono/jsx */
/** What is muted: a page with all of it, and what the pages of a license, an account and a notice say of it. */
import { describeActor } from "../../audit/mod.ts";
import { parsedField } from "../../base/rule.ts";
import { LOOKS_EVERY, listMuted, MUTABLE, type Muted, unmute } from "../../notices/mod.ts";
import { type Action, action } from "../frame/console/action.ts";
import { Table } from "../frame/console/components/table.tsx";
import { AccountLink, Ago, Foreign, LicenseLink, Minute } from "../frame/console/components/values.tsx";
import type { DetailPage } from "../frame/console/detail_page.tsx";
import type { Visit } from "../frame/console/visit.ts";

/** The rows that the page shows. */
const ROWS = 100;

const ENTRIES = { of: parsedField(MUTABLE) } as const;

const unmuteAction: Action<readonly Muted[]> = action<readonly Muted[], typeof ENTRIES>({
  name: "unmute",
  scope: "notices:change",
  label: "Unmute",
  submit: "Unmute",
  // Each row has its button.
  fits: () => false,
  entries: ENTRIES,
  Form: () => null,
  perform: ({ by, fields, visit }) => unmute(visit.options.database, fields.of, by),
  done: {
    "notice.unmute": () => <>Notices are made again: those that are true come within {LOOKS_EVERY}.</>,
  },
});

export const MUTED_PAGE: DetailPage<readonly Muted[]> = {
  path: "/notices/muted",
  scope: "notices:read",
  addressOf: () => "/notices/muted",
  actions: [unmuteAction],
  find: ({ options: { database } }) => listMuted(database, { limit: ROWS + 1 }),
  show: (muted, visit) => ({
    title: "Muted",
    under: (
      <>
        No notices are made for these accounts and licenses. <a href="/console/notices">Show all notices</a>
      </>
    ),
    below: (
      <>
        <Table
          caption="The first muted one first"
          columns={[
            { label: "Account", cell: ({ userId, email }) => <AccountLink id={userId} email={email} /> },
            {
              label: "License",
              cell: ({ licenseId }) => (licenseId === null ? "all" : <LicenseLink id={licenseId} />),
            },
            { label: "Muted", needs: "middle", cell: ({ mutedAt }) => <Ago at={mutedAt} now={visit.now} /> },
            { label: "By", cell: ({ mutedBy }) => <Foreign text={describeActor(mutedBy)} /> },
            ...(visit.may("notices:change")
              ? [{ label: "Actions", isControl: true as const, cell: UnmuteForm }]
              : []),
          ]}
          rows={muted.slice(0, ROWS)}
          none={<p class="empty">No account and no license is muted.</p>}
        />
        {muted.length > ROWS && (
          <p class="muted">
            There are more: <code>claviger notices muted</code> lists all.
          </p>
        )}
      </>
    ),
  }),
};

function UnmuteForm({ licenseId, userId, email }: Muted) {
  return (
    <form method="post" action={`/console${MUTED_PAGE.path}/unmute`}>
      <input type="hidden" name="of" value={licenseId ?? userId} />
      <button type="submit" class="quiet" aria-label={`Unmute ${licenseId ?? email}`}>
        Unmute
      </button>
    </form>
  );
}

/** Says that no notices are made for the license or the account of a page; nothing if it is not muted. */
export function MutedNote({ muted, visit }: { readonly muted: readonly Muted[]; readonly visit: Visit }) {
  return (
    <>
      {muted.map((each) => (
        <div class="told">
          <span>
            {`No notices are made for the ${each.licenseId === null ? "account" : "license"}: muted at `}
            <Minute at={each.mutedAt} /> by <Foreign text={describeActor(each.mutedBy)} />.
          </span>
          {visit.may("notices:change") && <UnmuteForm {...each} />}
        </div>
      ))}
    </>
  );
}
