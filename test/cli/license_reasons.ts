/** The sentence of each reason in the vectors of licenses and bundles: the clients in all languages say it. */
export const WHY: Readonly<Record<string, string>> = {
  no_license: "the file holds no license",
  not_pinned: "none of the pinned keys has signed the license: update this program",
  not_genuine: "the license is not genuine",
  other_product: "the license is for another product",
  other_key: "the license is for another key",
  other_machine: "the license is for another machine",
  clock_behind: "the clock is behind: correct it, or open a newer bundle or license",
  expired: "the license has expired: go online",
  older: "this bundle is older than the license that is there",
};
