/** The endpoints that have a window, by the names that the limits' settings have for them. */
export type LimitedEndpoint =
  | "validate"
  | "refresh"
  | "revoke"
  | "repo_token"
  | "models"
  | "downloads"
  | "analytics";
