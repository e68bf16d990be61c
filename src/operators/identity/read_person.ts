/** Reads from the claims of a login who the person is, and which role the groups give. */
import type { IDToken, UserInfoResponse } from "openid-client";
import { counted } from "../../base/render_count.ts";
import { redactKeys } from "../../base/secrets/mod.ts";
import { escapeControls } from "../../base/text/mod.ts";
import { ROLES, type Role } from "../mod.ts";
import { ProviderFailure } from "./_requests.ts";
import type { ProviderSettings } from "./provider_settings.ts";

export interface ProvenPerson {
  readonly issuer: string;
  readonly subject: string;
  /** Names for a new operator, best first. */
  readonly wantedNames: readonly string[];
  /** When the person proved who they are; 1970 if the provider does not say. Never too late if its clock is ahead. */
  readonly provedAt: Date;
  /** The highest role of the person's groups, or why there is none. */
  readonly access: { readonly role: Role } | NoRole;
}

interface NoRole {
  readonly role: undefined;
  /** For the page; follows the name of the provider. */
  readonly why: string;
  /** For the log: how many groups came. */
  readonly sent: string;
  /** For the log: the first groups, shortened. */
  readonly groups: string | undefined;
}

type Claims = Readonly<Record<string, unknown>>;

const MOST_CHARACTERS = 255;
/** OpenID Connect Core, section 2. PostgreSQL cannot store every character, and the rest of them is no text. */
const SUBJECT = /^[^\p{C}]{1,255}$/u;
/** How many groups of a refused person the log names, and how much of each. */
const MOST_LOGGED = 5;
const MOST_SHOWN = 60;

/** Shortens a text of the provider, and makes it safe to show. */
function shorten(text: string): string {
  const safe = redactKeys(text);
  return escapeControls(safe.length > MOST_SHOWN ? `${safe.slice(0, MOST_SHOWN)}…` : safe);
}

/** Tells whether a claim is there. Null is how some providers write that it is not. */
export function hasClaim(claims: Claims, name: string): boolean {
  return (claims[name] ?? undefined) !== undefined;
}

/** Reads the person from the ID token, and from the user information what the token does not have. */
export function readPerson(
  token: IDToken,
  information: Partial<UserInfoResponse>,
  { settings, nowMs }: { readonly settings: ProviderSettings; readonly nowMs: number },
): ProvenPerson {
  const { iss, sub, iat, auth_time: provedSeconds = 0 } = token;
  if (!SUBJECT.test(sub)) throw new ProviderFailure("sent a subject that is no text of 1 to 255 characters");
  const given = Object.entries(token).filter(([name]) => hasClaim(token, name));
  const claims: Claims = { ...information, ...Object.fromEntries(given) };
  const texts = [claims.preferred_username, claims.email, sub].filter((text) => typeof text === "string");
  // If the provider's clock is ahead, only the time from the proof to the token is certain.
  const provedMs = Math.min(nowMs, provedSeconds * 1_000, nowMs - (iat - provedSeconds) * 1_000);
  return {
    issuer: iss,
    subject: sub,
    wantedNames: texts.map((text) => text.slice(0, MOST_CHARACTERS)),
    provedAt: new Date(Math.max(0, provedMs)),
    access: readAccess(claims, settings),
  };
}

function readAccess(claims: Claims, settings: ProviderSettings): ProvenPerson["access"] {
  const { roles, groupsClaim } = settings;
  const groups = [claims[groupsClaim]].flat().filter((group) => typeof group === "string");
  const given = roles.filter(({ group }) => groups.includes(group)).map(({ role }) => role);
  const role = ROLES.findLast((each) => given.includes(each));
  if (role !== undefined) return { role };
  return {
    role,
    sent: counted(groups.length, "group"),
    groups: groups.length === 0 ? undefined : groups.slice(0, MOST_LOGGED).map(shorten).join(", "),
    ...explainNoRole(claims, { groups, settings }),
  };
}

/** Says why none of the groups has a role. `sent` is there if no groups came. */
function explainNoRole(
  claims: Claims,
  {
    groups,
    settings: { roles, groupsClaim },
  }: { readonly groups: readonly string[]; readonly settings: ProviderSettings },
): Pick<NoRole, "why"> & Partial<Pick<NoRole, "sent">> {
  const none = `has you in none of the groups that may log in: ${roles.map(({ group }) => group).join(", ")}`;
  if (!hasClaim(claims, groupsClaim)) {
    if (leavesOut(claims, groupsClaim))
      return {
        why: "does not send your groups, because there are too many of them: let it send only those that this service needs",
        sent: "too many groups for the token",
      };
    return { why: `${none}; it sent no claim ${groupsClaim}`, sent: `no claim ${groupsClaim}` };
  }
  const lastPart = (group: string) => group.slice(group.lastIndexOf("/") + 1);
  for (const { group } of roles) {
    const similar = groups.find((each) => lastPart(each) === lastPart(group));
    if (similar !== undefined)
      return {
        why: `sends the group ${shorten(similar)}, but CLAVIGER_OIDC_ROLES has ${group}: write it as the provider sends it`,
      };
  }
  return { why: none };
}

/**
 * Tells whether the provider only says where the groups could be asked for. Microsoft Entra does so for a person in more
 * than 200 groups.
 *
 * https://openid.net/specs/openid-connect-core-1_0.html#AggregatedDistributedClaims
 */
function leavesOut({ _claim_names: names, hasgroups }: Claims, groupsClaim: string): boolean {
  const isElsewhere = typeof names === "object" && names !== null && Object.hasOwn(names, groupsClaim);
  return isElsewhere || hasgroups === true || hasgroups === "true";
}
