/** Measures signed licenses: how many a second, and what each costs in CPU time. */
import { oneRequest } from "../one_request.ts";
import { toCount } from "../table.ts";

const KEYS = 20_000;

export const license = oneRequest({
  group: "license",
  name: "signed licenses",
  request: "license",
  keys: KEYS,
  what: `${toCount(KEYS)} keys in turn`,
});
