/** The reasons for refusing a change of a key or of its license, in the same words for all changes. */
import { toId } from "../base/ids.ts";
import { type Reason, type Refusal, refuse } from "../base/refusal.ts";

/** Returns the refusal for an unknown key; `what` is what cannot be done, such as `suspend key`. */
export function refuseUnknownKey(what: string, uuid: string): Refusal {
  const stem = `Cannot ${what}: there is no key ${toId("key", uuid)}`;
  return refuse("KEY_NOT_FOUND", stem, { remedy: { name: "list_keys" } });
}

/** Returns the refusal for an unknown license; `what` is what cannot be done, such as `show license`. */
export function refuseUnknownLicense(what: string, uuid: string): Refusal {
  return refuse("NOT_FOUND", `Cannot ${what}: there is no license ${toId("lic", uuid)}`);
}

/** Returns why a revoked key cannot be changed, nor its license through that key; `id` is that of the key. */
export function revokedReason(id: string): Reason {
  return { why: "the key is revoked for good", remedy: { name: "replace_key", of: id } };
}
