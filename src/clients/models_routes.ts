/** The list of models that a key may load. */
import { isRefusal, refuse } from "../base/refusal.ts";
import { isStorableText } from "../database/mod.ts";
import type { KeyRecord } from "../licensing/keys/mod.ts";
import type { Brand } from "../licensing/mod.ts";
import { createClientLists, type ListedFile } from "../models/mod.ts";
import { readQuery, SENT_TWICE } from "../wire/mod.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { type EndpointOperation, parameters, WITH_GOOD_KEY } from "./operation.ts";

/** What the request for the list does. */
export function modelsListOperation({ modelTypes: [modelType = ""] }: Brand): EndpointOperation {
  return {
    id: "listModels",
    summary: "List the models that a key may load",
    description: "In byte order of their names. A filter that matches nothing gives an empty list.",
    parameters: parameters("query", {
      paradigm: ["Lists only models of this paradigm; empty means no filter", "motor_imagery"],
      type: ["Lists only models of this type; empty means no filter", modelType],
    }),
    success: {
      schema: "ModelList",
      description: "The models",
      example: {
        models: [
          {
            name: "motor_imagery_4class_v1",
            version: "1.0.0",
            type: modelType,
            paradigm: "motor_imagery",
            n_features: 44,
            n_classes: 4,
            size_mb: 2.4,
            download_url: "https://models.example.org/motor_imagery_4class_v1",
            checksum: `sha256:${"ab".repeat(32)}`,
            requires_license: "free",
            metadata: { description: "Left hand, right hand, feet, tongue" },
          },
        ],
        total: 1,
      },
    },
    codes: WITH_GOOD_KEY,
  };
}

const FILTERS = ["paradigm", "type"] as const;

/** Creates the handler that lists the models that a key may load. */
export function modelsList({ authenticator, database, clock, links, publicUrl, log }: HandlerDeps): Handler {
  const lists = createClientLists(database, clock);
  let isWarned = publicUrl !== undefined;

  function linkFor(file: ListedFile, record: KeyRecord): string | undefined {
    if (!isWarned) {
      log.warn(
        "Hosted models are left out of the list, because they have no download address: set CLAVIGER_PUBLIC_URL and restart",
        {
          model: file.name,
        },
      );
      isWarned = true;
    }
    return links.linkTo(file, record);
  }

  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "models", body);
    if (isRefusal(record)) return record;
    const query = readQuery(exchange.request);
    for (const [name, value] of query) {
      if (isStorableText(name) && isStorableText(value)) continue;
      return refuse("INVALID_REQUEST", "The query must not hold NUL or bytes that are not UTF-8");
    }
    // Otherwise one of its values would be ignored.
    const repeated = FILTERS.find((name) => query.getAll(name).length > 1);
    if (repeated !== undefined) return refuse("INVALID_REQUEST", `${repeated} ${SENT_TWICE}`);
    // An empty filter counts as no filter.
    const [paradigm, type] = FILTERS.map((name) => query.get(name) || undefined);
    const models = await lists.listFor({ ...record, paradigm, type }, (file) => linkFor(file, record));
    return { status: 200, body: `{"models":[${models.join(",")}],"total":${models.length}}` };
  };
}
