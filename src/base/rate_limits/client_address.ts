/**
 * Finds the sender whose window counts a request without a known key.
 *
 * The sender is the socket's peer. `X-Forwarded-For` is read only when the peer is a trusted proxy, and
 * then from the right: each proxy appends the address that called it, so the entry of a trusted proxy is
 * true. Anyone can have written the entries left of the first untrusted address.
 *
 * An entry that is not an address (`unknown`, an empty entry) ends the search. The request then belongs to
 * the last known address, the proxy that passed the entry on. So no sender gets a new window by writing
 * garbage.
 */
import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

interface ClientSource {
  /** The address of the socket's peer; undefined when the runtime does not know it. */
  readonly peer: string | undefined;
  /** The value of `X-Forwarded-For`, several lines joined by commas. */
  readonly forwardedFor?: string | null | undefined;
  readonly trustedProxies: TrustedProxies;
}

/** Networks whose `X-Forwarded-For` is believed. */
export type TrustedProxies = readonly (readonly [network: Address, prefixLength: number])[];

type ParsedProxies =
  | { readonly ok: true; readonly proxies: TrustedProxies }
  | { readonly ok: false; readonly error: string };

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** The group of all senders without a known address. */
const UNKNOWN_GROUP = "unknown";

/** If the header is longer, only its end is read, without the entry that is cut. Enough for about 90 proxies. */
const MAX_HEADER_LENGTH = 4096;

/** Long enough for brackets, an IPv6 address with an embedded IPv4 address, a zone and a port. */
const MAX_ENTRY_LENGTH = 100;

/**
 * Returns the group whose window a sender shares: an IPv4 address, an IPv6 network of 64 bits
 * (`2001:db8:0:1::/64`, the size that one household or host gets), or `unknown`. An IPv4 address that is
 * mapped into IPv6 counts as IPv4.
 */
export function toClientGroup(source: ClientSource): string {
  const address = findClient(source);
  return address === undefined ? UNKNOWN_GROUP : renderGroup(address);
}

/** Returns the address of a sender; `unknown` if the runtime does not know it. */
export function toClientAddress(source: ClientSource): string {
  return findClient(source)?.toString() ?? UNKNOWN_GROUP;
}

/** Tells whether an address lies in one of the networks, such as `10.0.0.0/8`; false for a text that is no address. */
export function isInNetworks(address: string, networks: TrustedProxies): boolean {
  const parsed = parseAddress(address);
  return parsed !== undefined && isTrusted(parsed, networks);
}

function findClient({ peer, forwardedFor, trustedProxies }: ClientSource): Address | undefined {
  const address = peer === undefined ? undefined : parseAddress(peer);
  if (address === undefined) return undefined;
  if (!forwardedFor || !isTrusted(address, trustedProxies)) return address;
  return walkForwardedFor(address, { header: forwardedFor, trustedProxies });
}

function walkForwardedFor(
  peer: Address,
  { header, trustedProxies }: { header: string; trustedProxies: TrustedProxies },
): Address {
  const isCut = header.length > MAX_HEADER_LENGTH;
  const entries = isCut ? header.slice(-MAX_HEADER_LENGTH) : header;
  let client = peer;
  for (let end = entries.length; end > 0; ) {
    const comma = entries.lastIndexOf(",", end - 1);
    if (comma === -1 && isCut) return client;
    const entry = parseForwardedEntry(entries.slice(comma + 1, end));
    if (entry === undefined) return client;
    client = entry;
    if (!isTrusted(client, trustedProxies)) return client;
    end = comma;
  }
  return client;
}

/** Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. */
function parseForwardedEntry(text: string): Address | undefined {
  if (text.length > MAX_ENTRY_LENGTH) return undefined;
  const entry = text.trim();
  const match = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(entry) ?? /^([\d.]+):\d{1,5}$/.exec(entry);
  return parseAddress(match?.[1] ?? entry);
}

/** Reads an address in its usual form, with or without a zone, which is dropped. */
function parseAddress(text: string): Address | undefined {
  const zone = text.indexOf("%");
  const plain = zone === -1 ? text : text.slice(0, zone);
  // The library also reads octal, hexadecimal and short forms; other programs read them as other addresses.
  const version = isIP(plain);
  if (version === 0) return undefined;
  if (version === 4) return zone === -1 ? ipaddr.IPv4.parse(plain) : undefined;
  const address = ipaddr.IPv6.parse(plain);
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

function isTrusted(address: Address, proxies: TrustedProxies): boolean {
  return proxies.some(
    ([network, prefixLength]) => network.kind() === address.kind() && matches(address, network, prefixLength),
  );
}

function matches(address: Address, network: Address, prefixLength: number): boolean {
  return address.match(network as ipaddr.IPv4 & ipaddr.IPv6, prefixLength);
}

function renderGroup(address: Address): string {
  if (!("parts" in address)) return address.toString();
  const network = address.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(":")}::/64`;
}

/**
 * Reads addresses and networks separated by commas or white space, such as `10.0.0.0/8, 2001:db8::1`.
 * A blank text means that no proxy is trusted. The error names the first bad entry. A network of prefix
 * length 0 is refused: with it every sender could choose its own address.
 */
export function parseTrustedProxies(text: string): ParsedProxies {
  const proxies: [Address, number][] = [];
  for (const entry of text.split(/[\s,]+/).filter((part) => part !== "")) {
    const proxy = parseNetwork(entry);
    if (typeof proxy === "string") {
      return { ok: false, error: `${JSON.stringify(entry)} ${proxy}` };
    }
    proxies.push(proxy);
  }
  return { ok: true, proxies };
}

function parseNetwork(entry: string): [Address, number] | string {
  const match = /^([^/]+?)(?:\/(\d{1,3}))?$/.exec(entry);
  const text = match?.[1] ?? "";
  const address = parseAddress(text);
  if (match === null || address === undefined || text.includes("%")) {
    return "is not an IP address or a network such as 10.0.0.0/8";
  }
  const writtenBits = isIP(text) === 4 ? 32 : 128;
  const written = match[2] === undefined ? writtenBits : Number(match[2]);
  if (written > writtenBits) return `has a prefix length above ${writtenBits}`;
  // A network of mapped addresses is written with the 96 bits of the mapping.
  const isMapped = writtenBits === 128 && address.kind() === "ipv4";
  if (isMapped && written <= 96) return "would trust every IPv4 sender";
  if (written === 0) return "would trust every sender";
  return [address, isMapped ? written - 96 : written];
}
