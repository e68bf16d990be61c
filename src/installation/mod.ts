/**
 * An installation as the service and every command find it: its database, its root secret, and the note that a
 * running service leaves in the data folder. Owns the table `secret_canary`.
 */

export {
  findSecret,
  type Installation,
  keepSecret,
  openInstallation,
  openSecrets,
} from "./installation.ts";
export { isSealed, proveSecret } from "./prove_secret.ts";
export {
  findPublicUrl,
  findServing,
  leaveServingNote,
  type ServingAt,
  type ServingNote,
} from "./serving_note.ts";
