import { isAdminTls, isLoopback, originOf } from "../base/listener_url.ts";
import type { ListenOptions, Platform, TlsPair } from "../base/platform/mod.ts";
import { isRefusal, type Refusal } from "../base/refusal.ts";
import { listenOrRefuse } from "../wire/mod.ts";
import { type OpenAdminAppOptions, openAdminApp } from "./open_admin_app.ts";

interface OperatorsListenerOptions
  extends Pick<ListenOptions, "maxBodyBytes" | "idleTimeoutSeconds">,
    Omit<OpenAdminAppOptions, "isLoopback" | "isTls"> {
  readonly platform: Platform;
  readonly tls: TlsPair | undefined;
}

/** Listens for requests of operators at the first of the addresses that can be used; undefined without an address. */
export async function listenForOperators(
  addresses: readonly Pick<ListenOptions, "host" | "port">[],
  options: OperatorsListenerOptions,
) {
  let refusal: Refusal | undefined;
  for (const address of addresses) {
    const listener = await listenAt(address, options);
    if (!isRefusal(listener)) return listener;
    refusal = listener;
  }
  return refusal;
}

async function listenAt(
  { host, port }: Pick<ListenOptions, "host" | "port">,
  options: OperatorsListenerOptions,
) {
  const { platform, maxBodyBytes, idleTimeoutSeconds } = options;
  const tls = isAdminTls({ host }, options) ? options.tls : undefined;
  const { answer, auditWaits, close } = await openAdminApp({
    ...options,
    isLoopback: isLoopback(host),
    isTls: tls !== undefined,
  });
  const listener = await listenOrRefuse(platform, {
    host,
    port,
    maxBodyBytes,
    idleTimeoutSeconds,
    answer,
    takesUploads: true,
    ...(tls && { tls }),
    remedy: "; choose another with --admin-listen",
  });
  if (isRefusal(listener)) {
    await close();
    return listener;
  }
  return {
    ...listener,
    /** Its own address, such as `http://127.0.0.1:8081`. */
    origin: originOf(listener, tls !== undefined),
    auditWaits,
    async stop(deadlineMs: number): Promise<void> {
      auditWaits.end();
      await listener.stop(deadlineMs);
      await close();
    },
  };
}
