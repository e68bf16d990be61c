/**
 * Sets kernel options that Bun does not offer, so that closing a listening socket resets no accepted connection.
 *
 * Closing resets the connections that wait in the socket's queue and those whose handshake is in progress. So for a
 * moment before, the socket must get no new connections. A lowest TTL does that and needs no privilege; some kernels
 * allow a packet filter only to root. If the kernel refuses an option, the connections of that moment are reset.
 */
import { dlopen, ptr } from "bun:ffi";
import { readdirSync } from "node:fs";
import { onFirstUse } from "./_c_library.ts";

const SOL_IP = 0;
const IP_MINTTL = 21;
const SOL_IPV6 = 41;
const IPV6_MINHOPCOUNT = 73;
const SOL_SOCKET = 1;
const SO_ACCEPTCONN = 30;
const SO_ATTACH_REUSEPORT_CBPF = 51;

/**
 * Drops the first packet of new connections on this port. The client's TCP sends it again after a second and reaches the
 * socket that listens then. Handshakes in progress continue, with `admitAccepted`. Returns false if the kernel refuses.
 *
 * Systems send packets with a TTL of 64 or 128, and each router on the way lowers it by one. A host of the same network
 * that sends with 255 still gets its connections, and they may be reset.
 */
export function refuseNewConnections(port: number): boolean {
  return socketsOf(port).filter((fd) => isListening(fd) && setLowestTtl(fd, 255)).length > 0;
}

/**
 * Lets accepted connections on this port receive packets: after `refuseNewConnections`, each new one inherits the lowest
 * TTL of the listening socket. Returns whether there was such a connection. Its client sends the lost packets again.
 */
export function admitAccepted(port: number): boolean {
  const isDeaf = (fd: number) => getOption(fd, SOL_IP, IP_MINTTL) === 255 && !isListening(fd);
  return socketsOf(port).filter((fd) => isDeaf(fd) && setLowestTtl(fd, 0)).length > 0;
}

/**
 * Sends all new connections to the second of two sockets that share a port (`SO_REUSEPORT`), counted in the order in
 * which they were bound. When the first socket is closed, the second gets all connections anyway. With a lowest TTL of
 * the first socket instead, half of the new connections would wait for a second.
 */
export function steerToSecond(port: number): void {
  // `return 1` in classic BPF, and struct sock_fprog: the number of instructions and their address.
  const program = new Uint16Array([0x06, 0, 1, 0]);
  const head = new BigUint64Array([1n, BigInt(ptr(program))]);
  setOption(socketsOf(port).find(isListening) ?? -1, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, head);
}

/** Returns the descriptors of this process's sockets with this local port: the listening and the accepted ones. */
function socketsOf(port: number): number[] {
  try {
    const descriptors = readdirSync("/proc/self/fd").map(Number);
    return descriptors.filter((fd) => portOf(fd) === port);
  } catch {
    return [];
  }
}

function isListening(fd: number): boolean {
  return getOption(fd, SOL_SOCKET, SO_ACCEPTCONN) === 1;
}

/** Returns the port of an IPv4 or IPv6 socket, at the same offset in both; undefined for other sockets. */
function portOf(fd: number): number | undefined {
  const address = new Uint8Array(28);
  const status = library().symbols.getsockname(fd, address, new Uint32Array([address.length]));
  const [family, , high = 0, low = 0] = address;
  return status === 0 && (family === 2 || family === 10) ? 256 * high + low : undefined;
}

/** Sets both options, because an IPv6 socket may serve IPv4, too. An IPv4 socket refuses the first. */
function setLowestTtl(fd: number, ttl: number): boolean {
  setOption(fd, SOL_IPV6, IPV6_MINHOPCOUNT, new Int32Array([ttl]));
  return setOption(fd, SOL_IP, IP_MINTTL, new Int32Array([ttl]));
}

function setOption(fd: number, level: number, option: number, value: NodeJS.TypedArray): boolean {
  return library().symbols.setsockopt(fd, level, option, value, value.byteLength) === 0;
}

function getOption(fd: number, level: number, option: number): number | undefined {
  const value = new Int32Array(1);
  const status = library().symbols.getsockopt(fd, level, option, value, new Uint32Array([4]));
  return status === 0 ? value[0] : undefined;
}

const library = onFirstUse((name) =>
  dlopen(name, {
    getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
    setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
    getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  }),
);
