/** @jsxImportSource hono/jsx */
/** A limit below the use of the month makes the service refuse the keys of the license: only if the form says so. */
import { monthOf } from "../../base/calendar.ts";
import type { Refusal } from "../../base/refusal.ts";
import { renderCount } from "../../base/render_count.ts";
import type { FormProps } from "../frame/console/action.ts";
import { CONSENT, Consent } from "../frame/console/components/consent.tsx";
import { refuseFields } from "../frame/console/form_fields.ts";
import type { ActedKey } from "./key_action.ts";

/** The field of the box. */
export const BELOW_USE_ENTRY = { below_use: CONSENT } as const;

/** The box that allows a limit which is used up already. */
export function BelowUseField({ field }: Pick<FormProps<unknown>, "field">) {
  return <Consent field={field} name="below_use" label="The limit may be used up already" />;
}

/** Refuses a change that uses up the quota without the box. */
export function askForBelowUse({ key: { used } }: ActedKey, now: Date): Refusal {
  const end = monthOf(now.getTime()).resetsAt.slice(0, 10);
  const error = `Used this month: ${renderCount(used)}. So the service would refuse the keys of the license until ${end}. Check the box if that is meant`;
  return refuseFields([{ field: "below_use", error }]);
}
