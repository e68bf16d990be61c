/** @jsxImportSource hono/jsx */
import type { Child } from "hono/jsx";

/** A word that is a state, with a color that fits it. */
export function Pill({ tone, children }: PillProps) {
  return <span class={`state ${tone}`}>{children}</span>;
}

export interface PillProps {
  readonly tone: "good" | "warning" | "bad" | "expired";
  readonly children?: Child;
}
