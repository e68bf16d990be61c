/** @jsxImportSource hono/jsx */
/**
 * A limit below the use: with such a monthly limit the service refuses the keys of the license, with such a machine limit it
 * refuses other machines. One license gets it only if the form says so.
 */
import { monthOf } from "../../base/calendar.ts";
import type { Refusal } from "../../base/refusal.ts";
import { counted, renderCount } from "../../base/render_count.ts";
import { type Effect, placesLostBy, usesUp } from "../../licensing/mod.ts";
import type { FormProps } from "../frame/console/action.ts";
import { CONSENT, Consent } from "../frame/console/components/consent.tsx";
import { refuseFields } from "../frame/console/form_fields.ts";
import { type ActedKey, takenOf } from "./key_action.ts";

/** The field of the box. */
export const BELOW_USE_ENTRY = { below_use: CONSENT } as const;

/** The box that allows a limit which is used up already. */
export function BelowUseField({
  field,
  label = "Change it even if the limit is used up then",
}: Pick<FormProps<unknown>, "field"> & { readonly label?: string }) {
  return <Consent field={field} name="below_use" label={label} />;
}

/** What becomes of the machines that hold places. */
const PLACES_WOULD = {
  further:
    "the machines would keep them, but no other machine would get one until fewer are taken than the limit",
  all: "without a limit every machine would lose its place at once, unless a license was signed for it",
};

/** Refuses a change to a limit below the use without the box; undefined for another change. */
export function askForBelowUse(of: ActedKey, effects: readonly Effect[], now: Date): Refusal | undefined {
  const ask = (why: string) =>
    refuseFields([{ field: "below_use", error: `${why}. Check the box if that is meant` }]);
  if (usesUp(effects)) {
    const end = monthOf(now.getTime()).resetsAt.slice(0, 10);
    return ask(
      `Used this month: ${renderCount(of.key.used)}. So the service would refuse the keys of the license until ${end}`,
    );
  }
  const lost = placesLostBy(effects);
  if (lost === undefined) return undefined;
  const taken = takenOf(of);
  return ask(`${counted(taken, "place")} ${taken === 1 ? "is" : "are"} taken: ${PLACES_WOULD[lost]}`);
}
