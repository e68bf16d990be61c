/** @jsxImportSource hono/jsx */
/** The tiers: what each gives its licenses, and how its values are changed for all of them. */
import * as v from "valibot";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { parsedField } from "../../base/rule.ts";
import {
  type ChangedTier,
  changeTier,
  type Effect,
  ENTITLEMENT_CHANGES,
  featuresOf,
  listTiers,
  monthlyLimitOf,
  OWN_ENTITLEMENTS,
  renderEntitlements,
  TIERS,
  type TierSummary,
  valueEffectsOf,
} from "../../licensing/mod.ts";
import { refuseOldProof } from "../../operators/mod.ts";
import { TIER_FIELD } from "../frame/api/fields.ts";
import { type Action, action } from "../frame/console/action.ts";
import { FromTo } from "../frame/console/components/changes.tsx";
import { optionsOf, Select, TextField } from "../frame/console/components/form.tsx";
import { History, readHistory } from "../frame/console/components/history.tsx";
import { toAddress } from "../frame/console/components/list.tsx";
import { numeric, Table } from "../frame/console/components/table.tsx";
import { Foreign, NONE, Pill } from "../frame/console/components/values.tsx";
import type { Detail, DetailPage } from "../frame/console/detail_page.tsx";
import { TEXT } from "../frame/console/form_fields.ts";
import type { Page } from "../frame/console/page.tsx";
import { toOpenForm } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";

const PATH = "/tiers";

/** A change for more licenses needs a fresh proof of who the operator is. */
const MOST_WITHOUT_PROOF = 10;

interface Shown {
  readonly tiers: readonly TierSummary[];
}

/** Its first answer shows what the change would do. The form of that page makes the change, if the tier is still so. */
const changeValues: Action<Shown> = action({
  name: "values",
  scope: "keys:manage",
  label: "Change values of a tier",
  submit: "Show what will change",
  Form: ({ field }) => (
    <>
      <p>
        Every license of the tier gets the values, but for those that the license has itself. The next page
        shows what changes, and for how many licenses.
      </p>
      <Select {...field("tier")} label="Tier" choices={optionsOf(TIERS)} required />
      <TextField
        {...field("entitlements")}
        label="Values"
        hint="Such as channels=64, region=eu. Nothing behind = removes a value from the tier; the others stay."
        required
      />
    </>
  ),
  entries: {
    tier: v.pipe(TEXT, TIER_FIELD),
    entitlements: v.pipe(
      TEXT,
      v.nonEmpty(`must be ${ENTITLEMENT_CHANGES.expects}`),
      parsedField(ENTITLEMENT_CHANGES),
    ),
    /** The values that the page of the change showed, empty for a tier without values; undefined before that page. */
    seen: v.optional(
      v.pipe(
        v.union([v.literal(""), parsedField(OWN_ENTITLEMENTS)]),
        v.transform((seen) => (seen === "" ? {} : seen)),
      ),
    ),
  },
  async perform({ fields: { tier, entitlements, seen }, by, visit }) {
    const options = { ...by, tier, change: entitlements };
    const changes = visit.options.licenseChanges;
    const foreseen = await changeTier(changes, { ...options, isDryRun: true });
    if (isRefusal(foreseen)) return foreseen;
    const unproven = refuseForMany(foreseen, visit);
    if (unproven !== undefined) return unproven;
    if (seen !== undefined) return await changeTier(changes, { ...options, seen });
    const effects = effectsOn(foreseen);
    return effects.length === 0 ? { isChanged: false } : previewPage(foreseen, effects, visit);
  },
  done: {
    "tier.values": (_, after) =>
      `Every license of ${Object(after).tier} has these values within a second, but for those that it has itself.`,
  },
});

function refuseForMany({ licenses }: ChangedTier, { session, now }: Visit): Refusal | undefined {
  if (licenses <= MOST_WITHOUT_PROOF) return undefined;
  return refuseOldProof(session, now, `change the values of more than ${MOST_WITHOUT_PROOF} licenses`);
}

function effectsOn({ before, after }: ChangedTier): Effect[] {
  return valueEffectsOf({ ownEntitlements: before }, { ownEntitlements: after });
}

/** Shows what a change of a tier would do. Its form carries what it shows, so that nothing else is done. */
function previewPage(
  { tier, before, licenses }: ChangedTier,
  effects: readonly Effect[],
  { form }: Visit,
): Page {
  const entered = ["tier", "entitlements", "reason"].map((name) => [name, form.get(name) ?? ""] as const);
  return {
    title: `Values of ${tier}: what will change`,
    script: "submit_once",
    body: (
      <>
        <p tabindex={-1} autofocus>
          Nothing is changed yet. <b>{`${counted(licenses, "license")} of ${tier} will have other values`}</b>
          , within a second. Licenses that have expired are not counted.
        </p>
        <Table
          caption="What will change"
          columns={[
            { label: "Value", cell: ({ what }) => <Foreign text={what} /> },
            {
              label: "Change",
              cell: ({ loss, ...change }) => (
                <span>
                  <FromTo {...change} /> {loss && <Pill tone="warning">{loss}</Pill>}
                </span>
              ),
            },
          ]}
          rows={effects}
        />
        <div class="actions add">
          <form method="post" action={`/console${PATH}/${changeValues.name}`}>
            {[...entered, ["seen", renderEntitlements(before)] as const].map(([name, value]) => (
              <input type="hidden" name={name} value={value} />
            ))}
            <button type="submit">{`Change the values of ${tier}`}</button>
          </form>
          <a href={`/console${toOpenForm(PATH, changeValues.name)}`}>Back to the form</a>
        </div>
      </>
    ),
  };
}

export const TIERS_PAGE: DetailPage<Shown> = {
  path: PATH,
  scope: "keys:read",
  addressOf: () => PATH,
  actions: [changeValues],
  find: async ({ options, now }) => ({ tiers: await listTiers(options.database, { now }) }),
  show: showTiers,
};

async function showTiers({ tiers }: Shown, { options, now }: Visit): Promise<Detail> {
  const history = await readHistory(options.database, { action: "tier.values" });
  return {
    title: "Tiers",
    script: "submit_once",
    above: (
      <Table
        caption="The lowest first. A license can have other limits, features and values of its own"
        columns={[
          {
            label: "Tier",
            cell: ({ tier }) => <a href={toAddress("/console/keys", { tier })}>{tier}</a>,
          },
          numeric("Monthly limit", ({ tier }) => describeLimit(monthlyLimitOf(tier))),
          { label: "Features", cell: ({ tier }) => featuresOf(tier).join(", ") },
          {
            label: "Values",
            cell: ({ entitlements }) => {
              const text = renderEntitlements(entitlements);
              return text === "" ? NONE : <Foreign text={text} />;
            },
          },
          numeric("Licenses not expired", ({ licenses }) => renderCount(licenses)),
        ]}
        rows={tiers}
      />
    ),
    below: history.length > 0 && <History rows={history} now={now} query="action=tier.values" />,
  };
}

function describeLimit(limit: number | null): string {
  return limit === null ? "unlimited" : renderCount(limit);
}
