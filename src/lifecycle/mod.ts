/** The order in which the parts of a service stop, and how long each may take. */
export { createStopOrder, type StopOrder } from "./stop_order.ts";
