/** All rows of the bench, in the order in which they are measured. */
import type { RowGroup } from "./row_group.ts";
import { admin } from "./rows/admin.ts";
import { eventCosts } from "./rows/event_cost.ts";
import { events } from "./rows/events.ts";
import { followers } from "./rows/followers.ts";
import { keyCount } from "./rows/key_count.ts";
import { memory } from "./rows/memory.ts";
import { observe } from "./rows/observe.ts";
import { sharedWindows } from "./rows/shared_windows.ts";
import { start } from "./rows/start.ts";
import { validate } from "./rows/validate.ts";

export const GROUPS: readonly RowGroup[] = [
  start,
  validate,
  keyCount,
  observe,
  events,
  ...eventCosts,
  sharedWindows,
  admin,
  followers,
  memory,
];
