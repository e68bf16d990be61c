/**
 * Sends datagrams to unix sockets and reads the system's monotonic clock. Bun and `node:` modules can do neither, so
 * this uses the C library.
 */
import { dlopen, ptr } from "bun:ffi";
import { onFirstUse } from "./_c_library.ts";

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const SOCK_NONBLOCK = 0o4000;
const MSG_NOSIGNAL = 0x4000;
/** The size of `sun_path` in `sockaddr_un`. */
const MAX_PATH_BYTES = 108;

/**
 * Sends one datagram to the socket at `path`; a path that begins with `@` means the abstract namespace. Never waits.
 * Throws if there is no receiver, its queue is full, or the path is not valid.
 */
export function sendDatagram(path: string, text: string): void {
  const name = Buffer.from(path);
  if (!/^[/@]./.test(path) || name.length >= MAX_PATH_BYTES) {
    throw new Error(`Cannot send to ${path}: it is not the path of a unix socket`);
  }
  const address = new Uint8Array(2 + MAX_PATH_BYTES);
  new DataView(address.buffer).setUint16(0, AF_UNIX, true);
  address.set(name, 2);
  const isAbstract = path.startsWith("@");
  if (isAbstract) address[2] = 0;
  // The length ends an abstract name; a zero byte ends a path.
  const length = 2 + name.length + (isAbstract ? 0 : 1);
  const message = Buffer.from(text);

  const { socket, sendto, close } = library().symbols;
  const fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw new Error(`Cannot send to ${path}: the system gives no socket`);
  try {
    const sent = sendto(fd, ptr(message), message.length, MSG_NOSIGNAL, ptr(address), length);
    if (Number(sent) !== message.length) throw new Error(`Cannot send to ${path}: no process receives it`);
  } finally {
    close(fd);
  }
}

const CLOCK_MONOTONIC = 1;

/** Returns the system's monotonic clock in microseconds. Bun's own clock starts with the process. */
export function monotonicUsec(): bigint {
  const time = new BigInt64Array(2);
  library().symbols.clock_gettime(CLOCK_MONOTONIC, ptr(time));
  const [seconds = 0n, nanoseconds = 0n] = time;
  return seconds * 1_000_000n + nanoseconds / 1_000n;
}

const library = onFirstUse((name) =>
  dlopen(name, {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
    clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
    close: { args: ["i32"], returns: "i32" },
  }),
);
