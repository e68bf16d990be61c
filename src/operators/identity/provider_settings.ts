import { matching, type ParsingRule } from "../../base/rule.ts";
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
  /** The claim that has the groups. A dot in it is a part of its name. */
  readonly groupsClaim: string;
  /** The scopes of a login, separated by blanks; undefined for those that the provider's own list suggests. */
  readonly scopes: string | undefined;
  /** The origin under which operators reach the console. */
  readonly adminUrl: string;
}

const MOST_GROUPS = 100;
const MOST_CHARACTERS = 255;

export const OIDC_GROUPS_CLAIM = matching(
  /^[^\s\p{C}]{1,255}$/u,
  "1 to 255 characters without blanks, such as roles or cognito:groups",
);

/** RFC 6749, section 3.3. */
export const OIDC_SCOPES: ParsingRule<string> = {
  expects:
    "scopes separated by blanks, with openid among them, such as openid profile email groups; up to 1000 characters",
  parse(text) {
    const scopes = text.trim().split(/ +/);
    const isRight = scopes.every((scope) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope));
    return isRight && scopes.includes("openid") && text.length <= 1_000 ? scopes.join(" ") : undefined;
  },
};

/**
 * Signs that entries were written wrongly: what stands for a group has another role with its `=` in it, or begins or ends with
 * a separator or a quotation mark.
 */
const WRONG_GROUP = new RegExp(`(?<![\\w-])(?:${ROLES.join("|")})\\s*=|^[,;"']|[,;"']$`, "i");

/** The rule for roles with groups. A comma separates two of them only before a role: names of groups have commas. */
export const OIDC_ROLES: ParsingRule<readonly RoleGroup[]> = {
  expects: `roles with groups, separated by commas, such as admin=licensing-admins,editor=support; the roles are ${ROLES.join(", ")}`,
  parse(text) {
    const entries = text.split(new RegExp(`,\\s*(?=(?:${ROLES.join("|")})=)`));
    const groups = entries.flatMap((entry) => {
      const [word = "", ...rest] = entry.split("=");
      const role = ROLES.find((each) => each === word.trim());
      const group = rest.join("=").trim();
      return role && group !== "" && group.length <= MOST_CHARACTERS && !WRONG_GROUP.test(group)
        ? { role, group }
        : [];
    });
    return groups.length === entries.length && groups.length <= MOST_GROUPS ? groups : undefined;
  },
};
