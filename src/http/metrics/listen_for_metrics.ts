import type { Listener, ListenOptions, Platform } from "../../platform/mod.ts";
import { type Refusal, refuse } from "../../refusal.ts";

/** Metrics have an address of their own, so that the service's can be open to the world and theirs not. */
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
