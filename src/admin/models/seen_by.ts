/** Which keys can see the listed version of a model, and how many they are. */
import { parseId } from "../../base/ids.ts";
import { counted } from "../../base/render_count.ts";
import { MOST_COUNTED } from "../../database/mod.ts";
import { countListed } from "../../licensing/keys/mod.ts";
import { includesTier, TIERS, type Tier } from "../../licensing/mod.ts";
import type { RegisteredModel } from "../../models/mod.ts";
import { readFigures } from "../../usage/figures/mod.ts";
import type { Visit } from "../frame/console/visit.ts";

export interface SeenBy {
  /** Such as `1,204 active keys of the tiers commercial, enterprise`. */
  readonly keys: string;
  /** When the stored figures have counted them; undefined if they were counted now, or are not counted yet. */
  readonly asOf?: Date;
}

/** Returns the tiers whose keys see a version. */
export function tiersFrom(requiresLicense: Tier): Tier[] {
  return TIERS.filter((tier) => includesTier(tier, requiresLicense));
}

/** Names tiers in a sentence: `the tiers free, research`. */
export function nameTiers(tiers: readonly Tier[]): string {
  return `the tier${tiers.length === 1 ? "" : "s"} ${tiers.join(", ")}`;
}

/**
 * Finds which active keys can see the listed version; undefined if none is listed. Those of a public model are many, so the
 * stored figures have their number.
 */
export async function findSeenBy(
  { listedVersion, shown, owner }: RegisteredModel,
  { options: { database, demandFigures }, now }: Visit,
): Promise<SeenBy | undefined> {
  if (listedVersion === null) return undefined;
  if (owner !== null) {
    const filter = { accountUuid: parseId("usr", owner.id), state: "active" } as const;
    const count = (await countListed(database, { now, filter })) ?? MOST_COUNTED + 1;
    return { keys: `${counted(count, "active key", { most: MOST_COUNTED })} of the account ${owner.email}` };
  }
  demandFigures();
  const tiers = tiersFrom(shown.requiresLicense);
  const figures = (await readFigures(database))?.keys;
  if (figures === undefined) return { keys: `all active keys of ${nameTiers(tiers)}` };
  const rows = figures.rows.filter(({ tier, state }) => state === "active" && tiers.includes(tier));
  const count = rows.reduce((sum, row) => sum + row.count, 0);
  return { keys: `${counted(count, "active key")} of ${nameTiers(tiers)}`, asOf: figures.asOf };
}
