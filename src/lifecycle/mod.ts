/** The order in which the parts of a service stop, and how long each may take. */
export {
  type BackgroundPart,
  createStopOrder,
  type StopLimit,
  type StopOrder,
  type Stoppable,
} from "./stop_order.ts";
