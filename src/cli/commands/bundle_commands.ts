/** `claviger bundle …`: everything that a customer without a network needs, in one signed tar file for each machine. */
import { group } from "../command.ts";
import { make } from "./bundle_make_command.ts";
import { verify } from "./bundle_verify_command.ts";

export const bundle = group("bundle", "make and verify bundles for customers without a network", [
  make,
  verify,
]);
