import type { Listener, ListenOptions, Platform } from "../platform/mod.ts";
import { type Refusal, refuse } from "../refusal.ts";
import { reasonOf } from "../system_error.ts";

/** Listens; refuses with the reason, and with the remedy behind it, if the address cannot be used. */
export async function listenOrRefuse(
  platform: Pick<Platform, "listen">,
  { remedy = "", ...options }: ListenOptions & { readonly remedy?: string },
): Promise<Listener | Refusal> {
  try {
    return await platform.listen(options);
  } catch (error) {
    return refuse("INVALID_REQUEST", reasonOf(error) + remedy);
  }
}
