/** @jsxImportSource hono/jsx */
/** The form that adds a model adds a version, if its name is that of a model: only if the form says so. */
import type { Refusal } from "../../base/refusal.ts";
import { counted } from "../../base/render_count.ts";
import { MOST_COUNTED } from "../../database/mod.ts";
import { countListed } from "../../licensing/keys/mod.ts";
import { TIERS, type Tier } from "../../licensing/mod.ts";
import { type FoundModel, findRegistered, type RegisteredModel } from "../../models/mod.ts";
import type { FormProps } from "../frame/console/action.ts";
import { CONSENT, Consent } from "../frame/console/components/consent.tsx";
import { refuseFields } from "../frame/console/form_fields.ts";
import type { Visit } from "../frame/console/visit.ts";
import { nameTiers, tiersFrom } from "./seen_by.ts";

/** The field of the box. */
export const KNOWN_NAME_ENTRY = { add_version: CONSENT } as const;

/** The box that allows a further version of a model; it is shown if it was needed. */
export function KnownNameField({ field }: Pick<FormProps<unknown>, "field">) {
  const { error, value } = field("add_version");
  if (error === undefined && value === undefined) return null;
  return <Consent field={field} name="add_version" label="Add a version to the model that has this name" />;
}

interface Added {
  readonly name: string;
  readonly version: string;
  readonly requiresLicense: Tier;
}

/**
 * Refuses a version of a model that exists already, and says what it changes for whom; undefined for a new name, and for
 * what the registry refuses itself.
 */
export async function askForVersion(added: Added, visit: Visit): Promise<Refusal | undefined> {
  const found = await findRegistered(visit.options.database, added.name);
  if (found === undefined || found.model.owner !== null || hasVersion(found, added.version)) return undefined;
  const seen = await describeSeen(found.model, { added, visit });
  const error = `A model has this name already; ${seen} Check the box if that is meant`;
  return refuseFields([{ field: "add_version", error }]);
}

function hasVersion({ versions }: FoundModel, named: string): boolean {
  return versions.some(({ version }) => version === named);
}

/** Says which version clients see before and after the file has arrived: `clients see 1.0.0 (tier free) …`. */
export function describeReplaced(
  { listedVersion, shown }: RegisteredModel,
  { version, requiresLicense }: Omit<Added, "name">,
): string {
  const now = listedVersion === null ? "no version" : `${listedVersion} (tier ${shown.requiresLicense})`;
  return `clients see ${now} now, and ${version} (tier ${requiresLicense}) after the upload of its file`;
}

async function describeSeen(
  model: RegisteredModel,
  { added, visit }: { readonly added: Added; readonly visit: Visit },
): Promise<string> {
  const { listedVersion, shown } = model;
  const before = listedVersion === null ? [] : tiersFrom(shown.requiresLicense);
  const after = tiersFrom(added.requiresLicense);
  const ofTiers = TIERS.filter((tier) => before.includes(tier) !== after.includes(tier));
  const isMore = after.length > before.length;
  const { now, options } = visit;
  const count =
    ofTiers.length === 0
      ? 0
      : await countListed(options.database, { now, filter: { ofTiers, state: "active" } });
  const keys = counted(count ?? MOST_COUNTED + 1, "active key", { most: MOST_COUNTED });
  const sight = isMore ? "the model becomes visible for" : "the model disappears for";
  const change =
    ofTiers.length === 0 ? "the same keys see the model" : `${sight} ${keys} of ${nameTiers(ofTiers)}`;
  return `${describeReplaced(model, added)}: ${change}.`;
}
