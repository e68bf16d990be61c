import type { Listener, ListenOptions, Platform } from "../../platform/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";

/**
 * Listens for requests for metrics, if an address is set. Metrics have an address of their own, so that the address
 * of the service can be public while theirs is not.
 */
export async function listenForMetrics(
  address: { readonly host: string; readonly port: number } | undefined,
  {
    platform,
    ...options
  }: { readonly platform: Platform } & Pick<ListenOptions, "answer" | "maxBodyBytes" | "idleTimeoutSeconds">,
): Promise<Listener | undefined | Refusal> {
  if (address === undefined) return undefined;
  try {
    return await platform.listen({ ...address, ...options });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return refuse("INVALID_REQUEST", `${reason}; choose another with --metrics-listen`);
  }
}
