/**
 * The message with which an operator hands a key to a customer: the text of a file that a setting names, or the usual text. The
 * file is read each time, so a change takes effect at once, and a file that became wrong stops no service.
 */
import { readRegularFile } from "../../base/read_regular_file.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { NAMED_FILE_REASONS, reasonOf } from "../../base/system_error.ts";

/** What stands in the place of `{key}`, `{license}`, `{address}` and `{name}`. */
export interface MessageParts {
  readonly key: string;
  /** The tier, the mode and the end, and which key this one replaces. */
  readonly license: string;
  /** The address at which clients reach the service, without a slash at its end. */
  readonly address: string;
  /** The customer's name, or without one the e-mail. */
  readonly name: string;
}

const PLACEHOLDERS: readonly string[] = [
  "key",
  "license",
  "address",
  "name",
] satisfies (keyof MessageParts)[];
const PLACEHOLDER = /\{([a-z_]+)\}/g;

const MOST_BYTES = 10_000;

export const USUAL_MESSAGE = `Hello {name},

this is your API key ({license}):

{key}

To try it:

curl -s {address}/v1/auth/validate -d '{"api_key":"{key}"}'

Keep it secret: anyone who has it can use your quota.`;

/** Reads the text of the message; without a file it is the usual one. Refuses a file that cannot be read, or has a wrong text. */
export function readMessage(file: string | undefined): { readonly text: string } | Refusal {
  if (file === undefined) return { text: USUAL_MESSAGE };
  const cannot = (why: string) => refuse("CONFLICT", `Cannot use the message in ${file}: ${why}`);
  let text: string;
  try {
    text = readRegularFile(file, MOST_BYTES)
      .replace(/^\ufeff/, "")
      .trim();
  } catch (error) {
    return cannot(reasonOf(error, { ...NAMED_FILE_REASONS, EFBIG: `it has more than ${MOST_BYTES} bytes` }));
  }
  const unknown = [...text.matchAll(PLACEHOLDER)].find(([, name = ""]) => !PLACEHOLDERS.includes(name));
  if (unknown !== undefined) {
    const known = PLACEHOLDERS.map((name) => `{${name}}`).join(", ");
    return cannot(`it has ${unknown[0]}, and the placeholders are ${known}`);
  }
  return text.includes("{key}") ? { text } : cannot("it has no {key}");
}

/** Puts the parts into the places of the text. A part that looks like a placeholder stays as it is. */
export function fillMessage(text: string, parts: MessageParts): string {
  return text.replace(PLACEHOLDER, (whole, name: string) => parts[name as keyof MessageParts] ?? whole);
}
