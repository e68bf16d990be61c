/** The list of the machines that hold places of the license of a key. */
import * as v from "valibot";
import { isRefusal } from "../base/refusal.ts";
import { numberField, parsedField } from "../base/rule.ts";
import {
  listForClient,
  MACHINE_ID,
  MACHINES_A_PAGE,
  renderMachinesPage,
  USUAL_PAGE,
} from "../licensing/machines/mod.ts";
import { parseFields } from "../wire/mod.ts";
import { reply } from "./exchange.ts";
import type { Handler, HandlerDeps } from "./handler.ts";
import { type EndpointOperation, jsonBody, WITH_BODY, WITH_GOOD_KEY } from "./operation.ts";

/** The fields of a request for the list besides the key. */
export const machineListFields = v.object({
  limit: v.nullish(numberField(MACHINES_A_PAGE)),
  after: v.nullish(parsedField(MACHINE_ID)),
});

/** What the request for the list does. */
export const LIST_MACHINES: EndpointOperation = {
  id: "listMachines",
  summary: "List the machines that hold places of the license",
  description:
    "In the order of their first activation, never those of another license. A page has at most `limit` machines, by default " +
    `${USUAL_PAGE}; \`next\` goes on with \`after\`. \`machine_id\` releases a machine. A license that does not count machines ` +
    "has an empty list.",
  request: jsonBody("MachineListRequest", { limit: 50 }),
  success: {
    schema: "MachineList",
    description: "The machines, the places of the license, and the releases by id",
    example: {
      machines: [
        {
          machine_id: "mch_019a0000000070008000000000000000",
          name: "Workstation 7",
          platform: "linux",
          state: "active",
          activated_at: "2026-11-20T10:00:00Z",
          last_seen_at: "2026-11-20T10:15:00Z",
          expires_at: null,
          taken_until: null,
        },
      ],
      next: null,
      places: { limit: 5, used: 1 },
      self_releases: { limit: 3, used: 0, days: 30 },
    },
  },
  codes: [...WITH_GOOD_KEY, ...WITH_BODY],
};

/** Creates the handler of the list. */
export function machineList({ authenticator, database }: HandlerDeps): Handler {
  return async (exchange, body) => {
    const record = await authenticator.authenticate(exchange, "machine_list", body);
    if (isRefusal(record)) return record;
    const fields = parseFields(machineListFields, body);
    if (isRefusal(fields)) return fields;
    const { limit, after } = fields;
    const page = await listForClient(database, record.licenseUuid, {
      after: after ?? undefined,
      limit: limit ?? undefined,
    });
    return reply(renderMachinesPage(page));
  };
}
