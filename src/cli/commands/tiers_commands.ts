/** `claviger tiers …`: what each tier includes, and the values of its licenses. */
import { counted, renderCount } from "../../base/render_count.ts";
import {
  type ChangedTier,
  changeTier,
  createLicenseChanges,
  ENTITLEMENT_CHANGES,
  featuresOf,
  listTiers,
  monthlyLimitOf,
  renderChangedTier,
  renderEntitlements,
  renderTier,
  TIERS,
} from "../../licensing/mod.ts";
import { databaseCommand, group } from "../command.ts";
import { CONFIRMATION, REASON } from "../options.ts";
import { required } from "../parameter.ts";
import { orRefuse } from "../run.ts";

const list = databaseCommand({
  name: "list",
  description:
    "list what each tier includes: its monthly limit, features and values, and how many licenses it has",
  async run(_values, { database, now, print }) {
    const tiers = await listTiers(database, { now });
    print.table(
      tiers.map(({ tier, entitlements, licenses }) => {
        const limit = monthlyLimitOf(tier);
        return {
          tier,
          licenses: licenses === null ? "" : renderCount(licenses),
          "monthly limit": limit === null ? "unlimited" : renderCount(limit),
          values: renderEntitlements(entitlements),
          features: featuresOf(tier).join(", "),
        };
      }),
      tiers.map(renderTier),
    );
  },
});

const value = databaseCommand({
  name: "value",
  description: "set values of a tier, for all its licenses that have none of their own with the same name",
  arguments: {
    tier: required("the tier", TIERS),
    values: required("such as channels=8; several with commas; channels= removes it", ENTITLEMENT_CHANGES),
  },
  options: { ...CONFIRMATION, ...REASON },
  async run({ tier, values, dryRun }, { database, actor, now, print, confirm }) {
    const changes = createLicenseChanges(database);
    const options = { tier, change: values, actor, now };
    const foreseen = orRefuse(await changeTier(changes, { ...options, isDryRun: true }));
    if (foreseen.isSame)
      return print.line(`Nothing changed: ${tier} has these values already`, renderChangedTier(foreseen));
    if (dryRun) return print.line(`Would change ${describe(foreseen)}`, renderChangedTier(foreseen));
    await confirm(`Change ${describe(foreseen)}?`);
    const changed = orRefuse(await changeTier(changes, { ...options, seen: foreseen.before }));
    print.line(`Changed ${describe(changed)}`, renderChangedTier(changed));
  },
});

/** Says what changes and for how many: `the values of free from none to channels=8, for 12 licenses`. */
function describe({ tier, before, after, licenses }: ChangedTier): string {
  const [from, to] = [before, after].map((values) => renderEntitlements(values) || "none");
  return `the values of ${tier} from ${from} to ${to}, for ${counted(licenses, "license")}`;
}

export const tiers = group("tiers", "list the tiers, and change the values of their licenses", [list, value]);
