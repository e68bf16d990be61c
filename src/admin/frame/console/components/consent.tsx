/** @jsxImportSource hono/jsx */
/** A box that must be checked for a change that might not be meant. */
import * as v from "valibot";
import type { FormProps } from "../action.ts";
import { CheckBox } from "./form.tsx";

interface Props {
  readonly field: FormProps<unknown>["field"];
  readonly name: string;
  readonly label: string;
}

/** The box, with the reason for which the form was refused without it. */
export function Consent({ field, name, label }: Props) {
  return <CheckBox {...field(name)} label={label} />;
}

/** The schema of the box: whether it is checked. */
export const CONSENT = v.pipe(
  v.optional(v.string()),
  v.transform((text) => text !== undefined),
);
