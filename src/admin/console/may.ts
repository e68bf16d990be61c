import { type Role, type Scope, scopesOf } from "../../operators/mod.ts";

/**
 * What a role needs for a page: a scope; `any`: every operator may; `admin`: only admins may, as no scope gives the
 * right.
 */
export type Need = Scope | "any" | "admin";

/** Tells whether a role meets a need. */
export function mayUse(role: Role, need: Need): boolean {
  if (need === "any" || role === "admin") return true;
  return need !== "admin" && scopesOf(role).includes(need);
}
