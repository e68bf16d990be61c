/**
 * Rate limits: how many requests a sender may make in a minute, and which requests belong to one sender.
 *
 * Pure and bounded: time and addresses are passed in, and memory does not grow with what strangers send.
 */
export { ByteRoom, bytesToRead } from "./byte_room.ts";
export {
  isInNetworks,
  parseTrustedProxies,
  type TrustedProxies,
  toClientAddress,
  toClientGroup,
} from "./client_address.ts";
export { InFlight } from "./in_flight.ts";
export { createLimiter, type Limiter } from "./limiter.ts";
export {
  growLimit,
  type KeyWindows,
  type LimitOf,
  type Sender,
  toResetAt,
  type Verdict,
  type WindowStats,
  WindowTable,
} from "./window_table.ts";
