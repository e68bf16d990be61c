/**
 * The brand: three words that clients see, and that an installation may replace by its own.
 *
 * | Word | Default | Seen in |
 * |---|---|---|
 * | name | `svc` | the prefix of every key, `svc_live_…` |
 * | type prefix | `Svc` | model types, `SvcLDA` |
 * | installer host | `repo` | the path `/v1/installer/repo-token` and its field `repo_token` |
 */
export interface Brand {
  /** 1 to 16 lowercase letters and digits, a letter first. */
  readonly name: string;
  /** The host of the package repository, 1 to 32 lowercase letters and digits, a letter first. */
  readonly installerHost: string;
  /** Model types that may be registered. */
  readonly modelTypes: readonly string[];
}

/** Makes a brand. By default the model types are the three kinds of the contract with the brand's prefix. */
export function createBrand(
  name = "svc",
  options: { readonly installerHost?: string; readonly modelTypes?: readonly string[] } = {},
): Brand {
  const typePrefix = name.charAt(0).toUpperCase() + name.slice(1);
  return {
    name,
    installerHost: options.installerHost ?? "repo",
    modelTypes: options.modelTypes ?? MODEL_KINDS.map((kind) => typePrefix + kind),
  };
}

/** The kinds of models in the registry. The state-space kind exists only in the client. */
const MODEL_KINDS = ["LDA", "QDA", "Probit"];
