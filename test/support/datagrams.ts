/** Stands in for the service manager: a unix datagram socket that keeps every message it receives. */
import { dlopen, ptr } from "bun:ffi";
import { rmSync } from "node:fs";
import { until } from "./until.ts";

const { socket, bind, recv, close } = dlopen("libc.so.6", {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
}).symbols;

export interface DatagramReceiver {
  /** The messages received so far, oldest first. */
  received(): readonly string[];
  /** Waits until a received message matches; throws after 5 s. */
  until(pattern: RegExp): Promise<string>;
  close(): void;
}

/** Receives at a path, or at an abstract name, which begins with `@`. */
export function receiveDatagrams(path: string): DatagramReceiver {
  const isAbstract = path.startsWith("@");
  const name = Buffer.from(isAbstract ? `\0${path.slice(1)}` : `${path}\0`);
  const address = Buffer.concat([Buffer.from(new Uint16Array([1]).buffer), name]);
  // The flags mean: datagrams, never block, close on exec.
  const fd = socket(1, 2 | 0o4000 | 0o2000000, 0);
  if (fd < 0 || bind(fd, ptr(address), address.length) !== 0) throw new Error(`Cannot receive at ${path}`);
  const messages: string[] = [];
  const buffer = new Uint8Array(8_192);
  const received = () => {
    for (;;) {
      const size = Number(recv(fd, ptr(buffer), buffer.length, 0));
      if (size < 0) return messages;
      messages.push(Buffer.from(buffer.subarray(0, size)).toString());
    }
  };
  return {
    received,
    async until(pattern) {
      return await until(() => received().find((message) => pattern.test(message)), {
        what: `a message that matches ${pattern}`,
      });
    },
    close() {
      close(fd);
      if (!isAbstract) rmSync(path, { force: true });
    },
  };
}
