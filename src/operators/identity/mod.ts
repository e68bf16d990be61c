/**
 * The identity provider of the operators' organisation: its settings, and the login there by OpenID Connect. Owns no
 * table: `operators` stores who a person is.
 */
export { type LoginState, openProvider, type Provider } from "./provider.ts";
export { OIDC_GROUPS_CLAIM, OIDC_ROLES, OIDC_SCOPES, type ProviderSettings } from "./provider_settings.ts";
