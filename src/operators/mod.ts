/**
 * Operators: people with roles, their login codes and sessions, tokens of programs, and scopes. Owns the tables
 * `operators`, `login_codes`, `operator_sessions`, `tokens` and `idempotent_answers`.
 */
export { ROLES, type Role, SCOPES, type Scope, scopesOf } from "./scopes.ts";
export {
  findToken,
  type IssuedToken,
  issueToken,
  type Token,
  type TokenRequest,
  tokenPattern,
} from "./tokens.ts";
