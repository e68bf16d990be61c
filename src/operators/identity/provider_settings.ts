import type { ParsingRule } from "../../base/rule.ts";
import { ROLES, type Role } from "../mod.ts";

/** People in the group have the role. */
interface RoleGroup {
  readonly role: Role;
  readonly group: string;
}

export interface ProviderSettings {
  /** As the provider writes it, such as `https://login.example.org/realms/staff`. */
  readonly issuer: string;
  readonly clientId: string;
  /** Undefined for a command that cannot see the credentials of the service. */
  readonly secretFile: string | undefined;
  /** The certificates that sign that of the provider; undefined for those of the system. */
  readonly caFile: string | undefined;
  /** What pages call the provider. */
  readonly name: string;
  readonly roles: readonly RoleGroup[];
  /** The origin under which operators reach the console. */
  readonly adminUrl: string;
}

const MOST_GROUPS = 100;
const MOST_CHARACTERS = 255;

/** The rule for roles with groups. A comma separates two of them only before a role: names of groups have commas. */
export const OIDC_ROLES: ParsingRule<readonly RoleGroup[]> = {
  expects: `roles with groups, such as admin=licensing-admins,editor=support; the roles are ${ROLES.join(", ")}`,
  parse(text) {
    const entries = text.split(new RegExp(`,\\s*(?=(?:${ROLES.join("|")})=)`));
    const groups = entries.flatMap((entry) => {
      const [word = "", ...rest] = entry.split("=");
      const role = ROLES.find((each) => each === word.trim());
      const group = rest.join("=").trim();
      return role && group !== "" && group.length <= MOST_CHARACTERS ? { role, group } : [];
    });
    return groups.length === entries.length && groups.length <= MOST_GROUPS ? groups : undefined;
  },
};
