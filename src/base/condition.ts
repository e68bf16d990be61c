/**
 * The conditions of a list, declared once. Commands, API and console take names, values and sentences from the
 * declaration: `near_quota` is `--near-quota` of a command, and a field in an address.
 */
import type { ParsingRule } from "./rule.ts";

/** Reads the value of a condition: one of a few words, or what a rule accepts. */
type Reader = readonly string[] | ParsingRule<unknown>;

export interface Condition<Read extends Reader = Reader> {
  /** What the condition asks for, in the words of help and document, such as `only keys of this tier`. */
  readonly says: string;
  readonly reader: Read;
  /** What the help of a command calls the value, such as `days`. */
  readonly as?: string;
  /** The word that stands for a missing value. */
  readonly default?: string;
}

export type ListConditions = Readonly<Record<string, Condition>>;

/** The values of conditions, each of which may be missing. */
export type ConditionValues<Of extends ListConditions> = {
  readonly [Name in keyof Of]?: ConditionValue<Of[Name]> | undefined;
};

export type ConditionValue<Of> =
  Of extends Condition<infer Read>
    ? Read extends readonly (infer Word)[]
      ? Word
      : Read extends ParsingRule<infer Value>
        ? Exclude<Value, undefined>
        : never
    : never;

/** Declares a condition. */
export function condition<const Read extends Reader>(
  says: string,
  reader: Read,
  details: Omit<Condition, "says" | "reader"> = {},
): Condition<Read> {
  return { ...details, says, reader };
}

/** The orders of rows that sort by the time at which they were made. */
export const ORDERS = ["oldest", "newest"] as const;

/** The order of a list that has no other one. A page of the console begins with the newest rows. */
export const ORDER_CONDITION = condition("the order; by default the oldest first", ORDERS);

/** The only value of a condition that is asked for or not: a command has an option without a value. */
export const YES = ["true"] as const;
