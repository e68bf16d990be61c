/**
 * Sets kernel options of a listening socket that Bun does not offer, so that no accepted connection is reset when the
 * socket is closed.
 *
 * Closing a listening socket resets the connections that wait in its queue and the connections whose handshake is in
 * progress. So for a moment before, the socket must get no new connections, while the process still accepts the
 * waiting ones. The two functions below do that with a few instructions of classic BPF, which needs no privilege. If
 * a step here fails, the socket is closed anyway, and the few connections of that moment are reset.
 */
import { dlopen, ptr } from "bun:ffi";
import { readdirSync } from "node:fs";
import { onFirstUse } from "./_c_library.ts";

const SOL_SOCKET = 1;
const SO_ATTACH_FILTER = 26;
const SO_ACCEPTCONN = 30;
const SO_ATTACH_REUSEPORT_CBPF = 51;

/** Instructions as `code, jump if true, jump if false, operand`. Source: linux/bpf_common.h. */
type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, operand: number];
const RETURN = 0x06;
const LOAD_BYTE = 0x30;
const AND = 0x54;
const JUMP_IF_EQUAL = 0x15;

/** Byte 13 of the TCP header, which is byte 13 for the filter: the first packet of a connection has SYN without ACK. */
const NO_NEW_CONNECTIONS: readonly Instruction[] = [
  [LOAD_BYTE, 0, 0, 13],
  [AND, 0, 0, 0x12],
  [JUMP_IF_EQUAL, 0, 1, 0x02],
  [RETURN, 0, 0, 0],
  [RETURN, 0, 0, 0xffff_ffff],
];

/**
 * Drops the first packet of new connections on these sockets. The client's TCP sends the packet again after a second
 * and reaches the socket that listens then. Handshakes in progress continue. Returns false if the kernel refuses it.
 */
export function refuseNewConnections(sockets: readonly number[]): boolean {
  return sockets.length > 0 && sockets.every((fd) => attach(fd, SO_ATTACH_FILTER, NO_NEW_CONNECTIONS));
}

/**
 * Sends all new connections to the second of two sockets that share a port (`SO_REUSEPORT`), counted in the order in
 * which they were bound. When the first socket is closed, the second gets all connections anyway.
 */
export function steerToSecond(socket: number): boolean {
  return attach(socket, SO_ATTACH_REUSEPORT_CBPF, [[RETURN, 0, 0, 1]]);
}

/** Returns the descriptors of this process's sockets that listen on the port. */
export function listeningSockets(port: number): number[] {
  try {
    const descriptors = readdirSync("/proc/self/fd").map(Number);
    return descriptors.filter((fd) => isListening(fd) && portOf(fd) === port);
  } catch {
    return [];
  }
}

function isListening(fd: number): boolean {
  const value = new Int32Array(1);
  const size = new Uint32Array([4]);
  const status = library().symbols.getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, ptr(value), ptr(size));
  return status === 0 && value[0] === 1;
}

/** Returns the port of an IPv4 or IPv6 socket, at the same offset in both; undefined for other sockets. */
function portOf(fd: number): number | undefined {
  const address = new Uint8Array(28);
  const size = new Uint32Array([address.length]);
  if (library().symbols.getsockname(fd, ptr(address), ptr(size)) !== 0) return undefined;
  const view = new DataView(address.buffer);
  const family = view.getUint16(0, true);
  return family === 2 || family === 10 ? view.getUint16(2, false) : undefined;
}

function attach(fd: number, option: number, program: readonly Instruction[]): boolean {
  const instructions = new DataView(new ArrayBuffer(8 * program.length));
  for (const [index, [code, ifTrue, ifFalse, operand]] of program.entries()) {
    instructions.setUint16(8 * index, code, true);
    instructions.setUint8(8 * index + 2, ifTrue);
    instructions.setUint8(8 * index + 3, ifFalse);
    instructions.setUint32(8 * index + 4, operand, true);
  }
  const bytes = new Uint8Array(instructions.buffer);
  // struct sock_fprog: the number of instructions and their address.
  const head = new BigUint64Array([BigInt(program.length), BigInt(ptr(bytes))]);
  return library().symbols.setsockopt(fd, SOL_SOCKET, option, ptr(head), head.byteLength) === 0;
}

const library = onFirstUse((name) =>
  dlopen(name, {
    getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
    setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
    getsockname: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  }),
);
