/**
 * Operators: people with roles, their login codes and sessions, tokens of programs, and scopes. Owns the tables
 * `operators`, `login_codes`, `operator_sessions`, `tokens`, `idempotent_answers` and `failed_login_hours`.
 */
export type { BegunSession, Login } from "./_begin_session.ts";
export { operatorsUpkeep } from "./delete_ended.ts";
export { noteEndings, refuseEndings } from "./ended_keys.ts";
export { createFailedLogins, type FailedLogins } from "./failed_logins.ts";
export { answerOnce } from "./idempotent_answers.ts";
export { limitsOfToken, meaningOf } from "./limits_of_token.ts";
export { deleteCodes, findOperatorsOfCodes, MOST_OF_CODE, parseCode } from "./login_codes.ts";
export {
  type LoginCode,
  listOperators,
  loginOperator,
  NAME_RULE,
  type Operator,
  removeOperator,
  setRole,
} from "./people.ts";
export { PRESET_NAMES, PRESETS, type PresetName, scopesOfToken } from "./presets.ts";
export { endSessionsOf, loginIdentity, type ProvenIdentity } from "./provider_logins.ts";
export { rightOfSession, rightOfToken } from "./rights.ts";
export {
  isTooWide,
  ROLE_MEANINGS,
  ROLES,
  type Role,
  SCOPE_MEANINGS,
  SCOPES,
  SCOPES_OF_RESTRICTED,
  SCOPES_RULE,
  type Scope,
  scopesOf,
} from "./scopes.ts";
export {
  endSession,
  FRESH_PROOF_MS,
  findSession,
  type ListedSession,
  listSessions,
  redeemCode,
  refuseOldProof,
  type Session,
} from "./sessions.ts";
export {
  disableTokens,
  type ListedToken,
  listTokens,
  renewToken,
  resumeToken,
  revokeToken,
} from "./token_life.ts";
export {
  findTokens,
  issueToken,
  SOURCES_RULE,
  type Token,
  type TokenRequest,
  tokenPattern,
  toRestriction,
} from "./tokens.ts";
