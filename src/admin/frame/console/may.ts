import { type Role, type Scope, scopesOf } from "../../../operators/mod.ts";

/**
 * The right that a role needs for a page: a scope; `any` for every operator; `admin` for a right that no scope gives,
 * which only admins have.
 */
export type Need = Scope | "any" | "admin";

/** Tells whether a role meets a need. */
export function mayUse(role: Role, need: Need): boolean {
  if (need === "any" || role === "admin") return true;
  return need !== "admin" && scopesOf(role).includes(need);
}
