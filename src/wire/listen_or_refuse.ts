import type { Listener, ListenOptions, Platform } from "../platform/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { hasCode, reasonOf } from "../system_error.ts";

/**
 * Listens; refuses with the reason, and with the remedy behind it, if the address cannot be used. The address may become
 * free, or the network may get it, but a missing right stays.
 */
export async function listenOrRefuse(
  platform: Pick<Platform, "listen">,
  { remedy = "", ...options }: ListenOptions & { readonly remedy?: string },
): Promise<Listener | Refusal> {
  try {
    return await platform.listen(options);
  } catch (error) {
    const { cause } = error as Error;
    return refuse(
      hasCode(cause, "EACCES") ? "INVALID_REQUEST" : "SERVICE_UNAVAILABLE",
      reasonOf(error) + remedy,
    );
  }
}
