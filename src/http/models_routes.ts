/** The list of models that a key may load. */
import * as v from "valibot";
import { listModelsFor } from "../models/mod.ts";
import { isRefusal, refuse } from "../refusal.ts";
import { readQuery } from "./authenticate.ts";
import { reply } from "./exchange.ts";
import { isCleanText, optionalText, parseFields } from "./fields.ts";
import type { Handler, Parts } from "./handler.ts";

/** An empty filter is no filter, and one that matches nothing gives an empty list. */
const filters = v.object({ paradigm: optionalText("paradigm", 200), type: optionalText("type", 200) });

export function modelsList({ authenticator, database }: Parts): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "models", body);
    if (isRefusal(record)) return record;
    const query = readQuery(exchange.request);
    for (const [name, value] of query) {
      if (isCleanText(name) && isCleanText(value)) continue;
      return refuse("INVALID_REQUEST", "The query must not hold NUL or bytes that are not UTF-8");
    }
    // In a repeated parameter the last one counts, as in a repeated JSON name.
    const fields = parseFields(filters, Object.fromEntries(query));
    if (isRefusal(fields)) return fields;
    const models = await listModelsFor(database, {
      tier: record.tier,
      accountUuid: record.accountUuid,
      paradigm: fields.paradigm || undefined,
      type: fields.type || undefined,
    });
    return reply({ models, total: models.length });
  };
}
