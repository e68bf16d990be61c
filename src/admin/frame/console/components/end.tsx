/** @jsxImportSource hono/jsx */
/** The end of a license or a token becomes earlier only if its form says so. */
import { isRefusal, type Refusal } from "../../../../base/refusal.ts";
import type { FormProps } from "../action.ts";
import { refuseFields } from "../form_fields.ts";
import { CONSENT, Consent } from "./consent.tsx";

interface Props {
  readonly field: FormProps<unknown>["field"];
  readonly label?: string;
}

/** The box that allows an earlier end. */
export function ShortenField({ field, label = "Allow an earlier end than now" }: Props) {
  return <Consent field={field} name="shorten" label={label} />;
}

/** The field of the box. */
export const SHORTEN_ENTRY = { shorten: CONSENT } as const;

/** Shows the refusal of an earlier end beside the box that allows it. */
export function askForShorten<Result>(result: Result | Refusal): Result | Refusal {
  if (!isRefusal(result) || result.remedy?.name !== "shorten") return result;
  return refuseFields([{ field: "shorten", error: `${result.stem}. Check the box if that is meant` }]);
}
