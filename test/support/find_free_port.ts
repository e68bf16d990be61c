import { createServer } from "node:net";

/** Returns a port of 127.0.0.1 that is free now. Another process may take it at any moment. */
export async function findFreePort(): Promise<number> {
  const listener = createServer();
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const bound = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return typeof bound === "object" ? (bound?.port ?? 0) : 0;
}
