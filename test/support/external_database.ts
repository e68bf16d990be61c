import { createTestDatabase, type TestDatabase } from "./database.ts";
import { type FaultyProxy, startFaultyProxy } from "./faulty_proxy.ts";

export interface ExternalDatabase extends TestDatabase, AsyncDisposable {
  /** The address for commands and other processes; it leads through the proxy. */
  readonly url: string;
  readonly proxy: FaultyProxy;
}

/** Makes a database that is reached by an address, as an operator's own PostgreSQL is. */
export async function createExternalDatabase(
  ...options: Parameters<typeof createTestDatabase>
): Promise<ExternalDatabase> {
  const made = await createTestDatabase(...options);
  const proxy = await startFaultyProxy(made.address);
  async function close(): Promise<void> {
    await proxy.close();
    await made.close();
  }
  return { ...made, proxy, url: proxy.address.url, close, [Symbol.asyncDispose]: close };
}
