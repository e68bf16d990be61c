/**
 * The group of client addresses that a request came from. Its window counts requests whose key is revoked or was never
 * issued.
 */
import { LRUCache } from "lru-cache";
import { type TrustedProxies, toClientGroup } from "../base/rate_limits/mod.ts";
import type { Exchange } from "./exchange.ts";

/** How many addresses are kept with their group: parsing an address takes as long as answering a request. */
const MAX_GROUPS = 10_000;

/** Returns the group of addresses that a request came from. */
export type AddressOf = (exchange: Exchange) => string;

/** Creates the function that reads the address of a request, once for each request. */
export function createAddressReader(trustedProxies: TrustedProxies): AddressOf {
  const groups = new LRUCache<string, string>({ max: MAX_GROUPS });

  function findGroup(exchange: Exchange): string {
    const { headers } = exchange.request;
    const forwardedFor = trustedProxies.length === 0 ? null : headers.get("x-forwarded-for");
    const peer = exchange.peerAddress();
    if (forwardedFor !== null) return toClientGroup({ peer, forwardedFor, trustedProxies });
    const known = groups.get(peer);
    if (known !== undefined) return known;
    const group = toClientGroup({ peer, trustedProxies });
    groups.set(peer, group);
    return group;
  }

  return (exchange) => {
    exchange.address ??= findGroup(exchange);
    return exchange.address;
  };
}
