/** Checks an OpenAPI document by the strict rules of Redocly, such as that each component is used. */
import { createConfig, lintFromString } from "@redocly/openapi-core";

/** Returns each problem of the text of a document: the rule, the place and a sentence. */
export async function lintDocument(text: string): Promise<string[]> {
  const config = await createConfig({
    extends: ["recommended-strict"],
    rules: {
      // The product has no public license.
      "info-license": "off",
      // The refusals of HEAD are the answer `default`.
      "operation-4xx-response": "off",
    },
  });
  const problems = await lintFromString({ source: text, absoluteRef: "openapi.json", config });
  return problems.map(
    ({ ruleId, location, message }) => `${ruleId} at ${location[0]?.pointer ?? "the whole"}: ${message}`,
  );
}
