/** Tells a program what its token may do. */
import * as v from "valibot";
import { MODES, TIERS } from "../../licensing/mod.ts";
import { SCOPES } from "../../operators/mod.ts";
import { route } from "../frame/api/route.ts";

export const whoami = route("GET /whoami", "any", {
  id: "whoami",
  summary: "Tell what the token may do",
  success: {
    schema: v.object({
      name: v.string(),
      scopes: v.array(v.picklist(SCOPES)),
      tiers: v.nullable(v.array(v.picklist(TIERS))),
      mode: v.nullable(v.picklist(MODES)),
    }),
    description: "The token's name, its scopes, and its restriction; null means no restriction",
  },
  async run(_, { token: { name, scopes, restriction } }) {
    return { name, scopes, tiers: restriction.tiers ?? null, mode: restriction.mode ?? null };
  },
});
