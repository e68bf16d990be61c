import { domainToASCII } from "node:url";

const MOST_CHARACTERS = 254;
/** An address whose domain has a character beyond ASCII. */
const BEYOND_ASCII = /^([^@]+)@((?=.*\P{ASCII})[\p{L}\p{M}\p{N}.-]+)$/u;
/** An address that SMTP accepts: ASCII only, at most 254 characters (RFC 5321, 4.5.3.1). */
const EMAIL =
  /^[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/i;

/**
 * Parses an e-mail address into lower case, the form in which accounts store it; undefined if it is not one. A domain with
 * letters beyond ASCII gets the form that mail and DNS have: `bücher.example` is `xn--bcher-kva.example` (RFC 5890).
 */
export function parseEmail(text: string): string | undefined {
  if (text.length > MOST_CHARACTERS) return undefined;
  const [, local, domain] = BEYOND_ASCII.exec(text) ?? [];
  const ascii = domain === undefined ? "" : domainToASCII(domain);
  // Without `xn--` the conversion only replaced characters that look like ASCII, such as wide letters: then the text is refused.
  const address = /(^|\.)xn--/.test(ascii) ? `${local}@${ascii}` : text;
  // Tested before lowering: some letters beyond ASCII have a lower case within ASCII.
  return address.length <= MOST_CHARACTERS && EMAIL.test(address) ? address.toLowerCase() : undefined;
}
