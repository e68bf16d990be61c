/**
 * Searches text for secrets: unchanged, in another case, percent-encoded, and as base64 or hexadecimal of their
 * bytes. Fast enough for the log of a million requests, because it looks only at long runs of letters and digits.
 */
import type { Secret } from "../hostile_input/actors.ts";

export interface SecretSearch {
  add(secrets: readonly Secret[]): void;
  /** Returns the names of the secrets in a text, each with the text before it. */
  find(text: string): string[];
  readonly count: number;
}

/** The length of the shortest secret, and of the part of a needle by which it is found. */
const GRAM = 20;
const RUNS = /[0-9a-z+/=_-]{20,}/g;
const PERCENT = /%([0-9a-f]{2})/gi;

export function createSecretSearch(): SecretSearch {
  /** Needles by their first characters. */
  const needles = new Map<string, { readonly name: string; readonly needle: string }[]>();
  let count = 0;

  function addNeedle(name: string, text: string): void {
    const needle = text.toLowerCase();
    if (needle.length < GRAM)
      throw new Error(`Cannot search for ${name}: it has fewer than ${GRAM} characters`);
    const gram = needle.slice(0, GRAM);
    const same = needles.get(gram) ?? [];
    if (!same.some((each) => each.needle === needle)) same.push({ name, needle });
    needles.set(gram, same);
  }

  function search(text: string, found: Set<string>): void {
    const lower = text.toLowerCase();
    for (const { 0: run, index } of lower.matchAll(RUNS)) {
      for (let at = 0; at + GRAM <= run.length; at++) {
        const candidates = needles.get(run.slice(at, at + GRAM));
        for (const { name, needle } of candidates ?? []) {
          if (run.startsWith(needle, at)) found.add(`${name} in …${shorten(text, index + at)}`);
        }
      }
    }
  }

  return {
    add(secrets) {
      for (const { name, value } of secrets) {
        count++;
        for (const form of toForms(value)) addNeedle(name, form);
      }
    },
    find(text) {
      const found = new Set<string>();
      search(text, found);
      if (text.includes("%")) {
        const once = decode(text);
        search(once, found);
        if (once.includes("%")) search(decode(once), found);
      }
      return [...found];
    },
    get count() {
      return count;
    },
  };
}

function toForms(value: string): string[] {
  // The digits of a key identify it without the prefix.
  const digits = /_(?:live|test)_([0-9a-f]{48})$/.exec(value)?.[1];
  // Any line of a PEM block counts as the secret.
  if (value.includes("-----")) return value.split("\n").filter((line) => /^[\w+/=]{40,}$/.test(line));
  const bytes = Buffer.from(value);
  // The end of the base64 text depends on the bytes that follow the secret.
  const base64 = bytes.toString("base64").slice(0, Math.floor(bytes.length / 3) * 4);
  const plain = digits ?? value.replace(/=+$/, "");
  return [plain, toUrlAlphabet(plain), base64, toUrlAlphabet(base64), bytes.toString("hex")];
}

function toUrlAlphabet(base64: string): string {
  return base64.replaceAll("+", "-").replaceAll("/", "_");
}

function decode(text: string): string {
  return text.replaceAll(PERCENT, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

/** Returns the text before a secret, without the secret itself. */
function shorten(text: string, at: number): string {
  return `${text.slice(Math.max(0, at - 60), at)}[here]`;
}
