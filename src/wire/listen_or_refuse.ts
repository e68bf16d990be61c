import { describeListener } from "../base/host/mod.ts";
import type { Listener, ListenOptions, Platform } from "../base/platform/mod.ts";
import { type Refusal, refuse } from "../base/refusal.ts";
import { hasCode, reasonOf } from "../base/system_error.ts";

/**
 * Listens on an address. If that fails, refuses with the reason, followed by `remedy`. For a port that is in use the reason
 * names who listens there. A missing right is `INVALID_REQUEST`, because another attempt does not help. Every other failure is
 * `SERVICE_UNAVAILABLE`, because it can pass: another program may free the port, or the machine may get the address later.
 */
export async function listenOrRefuse(
  platform: Pick<Platform, "listen">,
  { remedy = "", ...options }: ListenOptions & { readonly remedy?: string },
): Promise<Listener | Refusal> {
  try {
    return await platform.listen(options);
  } catch (error) {
    const { cause } = error as Error;
    const holder = hasCode(cause, "EADDRINUSE") ? describeListener(options.port) : undefined;
    return refuse(
      hasCode(cause, "EACCES") ? "INVALID_REQUEST" : "SERVICE_UNAVAILABLE",
      `${reasonOf(error)}${holder === undefined ? "" : ` by ${holder}`}${remedy}`,
    );
  }
}
