/**
 * Rules for values that people and programs write. The room that owns a value declares its rule. Every door (command, API,
 * console, import) uses this rule and adds only the name of the field.
 */
import * as v from "valibot";

/** The rule for a value that no OpenAPI document describes. */
export interface ParsingRule<Value> {
  /** The allowed values in words, such as `a month such as 2026-11`: a refusal says that the field must be one. */
  readonly expects: string;
  /** Returns the value of a text; undefined for a wrong text. */
  parse(text: string): Value | undefined;
}

export interface Rule<Value> extends ParsingRule<Value> {
  /** Describes the value in JSON Schema, for the OpenAPI documents. */
  readonly keywords: Keywords;
}

/** The rule for a number, which JSON sends as a number, and commands, addresses and forms as digits. */
export interface NumberRule extends Rule<number> {
  allows(number: number): boolean;
}

/** Returns the rule for whole numbers from `least` to `most`, by default as large as JSON can have them exactly. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): NumberRule {
  const isBounded = most < Number.MAX_SAFE_INTEGER;
  const allows = (number: number) => Number.isSafeInteger(number) && number >= least && number <= most;
  return {
    expects: `a whole number${isBounded ? ` from ${least} to ${most}` : `, at least ${least}`}`,
    keywords: { type: "integer", minimum: least, maximum: most },
    allows,
    parse: (text) => (/^\d+$/.test(text) && allows(Number(text)) ? Number(text) : undefined),
  };
}

/** Returns the rule for a text that matches a pattern. */
export function matching(pattern: RegExp, expects: string): ParsingRule<string> {
  return { expects, parse: (text) => (pattern.test(text) ? text : undefined) };
}

/** Returns the rule for a text of `least` to `most` printable ASCII characters. */
export function printableAscii(least: number, most: number): Rule<string> {
  const form = new RegExp(`^[\\x20-\\x7e]{${least},${most}}$`);
  const rule = matching(form, `${least} to ${most} printable ASCII characters`);
  return { ...rule, keywords: { pattern: form.source } };
}

/** Returns the rule for a text like {@linkcode printableAscii} without a blank at an end, which nobody sees; `most` is 2 or more. */
export function trimmedAscii(least: number, most: number): Rule<string> {
  const rest = `[ -~]{${Math.max(least - 2, 0)},${most - 2}}[!-~]`;
  const form = new RegExp(`^[!-~]${least < 2 ? `(?:${rest})?` : rest}$`);
  const rule = matching(form, `${printableAscii(least, most).expects} without a blank at either end`);
  return { ...rule, keywords: { pattern: form.source } };
}

/** Returns the rule for one of a few words. */
export function oneOf<const Word extends string>(words: readonly Word[]): Rule<Word> {
  return {
    expects: `one of ${words.join(", ")}`,
    keywords: { enum: words },
    parse: (text) => words.find((word) => word === text),
  };
}

type Keywords = Readonly<Record<string, unknown>>;

/** Returns the rule for some of a few words, separated by commas. The value has them in the order of `words`. */
export function someOf<const Word extends string>(words: readonly Word[]): ParsingRule<readonly Word[]> {
  return {
    expects: `one or more of ${words.join(", ")}`,
    parse(text) {
      const given = new Set<string>(text.split(",").map((word) => word.trim()));
      const known = words.filter((word) => given.has(word));
      return known.length === given.size ? known : undefined;
    },
  };
}

/**
 * Returns the schema of a text that stands for a value; `more` are further keywords for the document. As with each of these
 * schemas, the name of the field comes before the message.
 */
export function parsedField<Value>(rule: ParsingRule<Value> | Rule<Value>, more: Keywords = {}) {
  const { expects, parse } = rule;
  const must = `must be ${expects}`;
  return v.pipe(
    v.string(must),
    v.check((text) => parse(text) !== undefined, must),
    // A description after the transformation would not be in the document.
    inJsonSchema({ ...("keywords" in rule && rule.keywords), ...more }),
    v.transform((text) => parse(text) as Value),
  );
}

/** Returns the schema of a number in JSON. */
export function numberField({ expects, keywords, allows }: NumberRule) {
  const must = `must be ${expects}`;
  return v.pipe(v.number(must), v.check(allows, must), inJsonSchema(keywords));
}

/** Returns the schema of true or false in JSON. */
export function booleanField() {
  return v.boolean("must be true or false");
}

/** Returns the schema of one of a few words. */
export function wordField<const Word extends string>(words: readonly Word[]) {
  return v.picklist(words, `must be ${oneOf(words).expects}`);
}

/** Returns what is wrong with a field, without its name. The library has no such text for a missing or unknown field. */
export function whyWrong({ type, expected, received, message }: v.BaseIssue<unknown>): string {
  if (type !== "object" && type !== "strict_object") return message;
  if (expected === "never") return "is not known";
  return received === "undefined" ? "is required" : message;
}

/** Describes a check of our own in JSON Schema, for the OpenAPI documents. */
export function inJsonSchema<Input>(keywords: Keywords) {
  return v.metadata<Input, { readonly jsonSchema: typeof keywords }>({ jsonSchema: keywords });
}
