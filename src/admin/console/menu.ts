import type { Scope } from "../../operators/mod.ts";

/** The pages in the menu; an operator sees those that the role may open. */
export const MENU: readonly { readonly label: string; readonly path: string; readonly scope: Scope }[] = [
  { label: "Keys", path: "/console/keys", scope: "keys:read" },
];
