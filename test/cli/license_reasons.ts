import vectors from "../../src/cli/guide/sdk/vectors.json" with { type: "json" };

/** The sentence of each reason in the vectors of licenses: the clients in all languages say it. */
export const WHY: Readonly<Record<string, string>> = toSentences(false);

/** The same on a machine in a closed network, as in the vectors of bundles. */
export const CLOSED_WHY: Readonly<Record<string, string>> = toSentences(true);

function toSentences(isClosed: boolean): Record<string, string> {
  const chosen = vectors.sentences.filter(({ closed }) => closed === isClosed);
  return {
    no_license: "the file holds no license",
    not_pinned: "none of the pinned keys has signed the license: update this program",
    not_genuine: "the license is not genuine",
    other_product: "the license is for another product",
    other_key: "the license is for another key",
    other_machine: "the license is for another machine",
    older: "this bundle is older than the license that is there",
    ...Object.fromEntries(chosen.map(({ reason, expect }) => [reason, expect])),
  };
}
