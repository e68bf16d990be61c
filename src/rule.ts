/**
 * Rules for values that people and programs write. The room that owns a value declares its rule. Every door (command, API,
 * console, import) uses this rule and adds only the name of the field.
 */
export interface Rule<Value> {
  /** The end of a refusal, after the name of the field: `must be a month such as 2026-11`. */
  readonly must: string;
  /** Describes the value in JSON Schema, for the OpenAPI documents. */
  readonly keywords: Readonly<Record<string, unknown>>;
  /** Returns the value of a text; undefined for a wrong text. */
  parse(text: string): Value | undefined;
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
    must: `must be a whole number${isBounded ? ` from ${least} to ${most}` : `, at least ${least}`}`,
    keywords: { type: "integer", minimum: least, maximum: most },
    allows,
    parse: (text) => (/^\d+$/.test(text) && allows(Number(text)) ? Number(text) : undefined),
  };
}
