/**
 * The arguments and options of commands, as values. A command lists them by name: the option `expiresAt` is `--expires-at`.
 * The type of a value follows from the way in which its text is read.
 */
import { Argument, InvalidArgumentError, Option } from "commander";
import { oneOf, type ParsingRule } from "../base/rule.ts";

/** Reads a text: by the list of allowed words, by a rule, or by a function that throws `InvalidArgumentError`. */
type Reader = readonly string[] | ParsingRule<unknown> | ((text: string, before: never) => unknown);

type ValueOf<Read> = Read extends readonly (infer Word)[]
  ? Word
  : Read extends ParsingRule<infer Value>
    ? Exclude<Value, undefined>
    : Read extends (text: string, before: never) => infer Value
      ? Value
      : never;

interface Details {
  /** The name of the value in the help; by default the name of the option. */
  readonly as?: string;
  /** The default as the help shows it. */
  readonly shownDefault?: string;
  /** The words that the help shows and a shell completes, if a function reads the value. */
  readonly choices?: readonly string[];
  /** The options that cannot be given together with this one. */
  readonly conflicts?: string[];
  /** The options that this one also sets. */
  readonly implies?: Readonly<Record<string, boolean>>;
}

export interface Parameter<Value> extends Details {
  readonly description: string;
  /** How the text is read; undefined for an option without a value. */
  readonly reader?: Reader;
  readonly isRequired?: boolean;
  readonly default?: Value | undefined;
  /** For an argument of which several can be given. */
  readonly isList?: boolean;
  /** Never set: it only carries the type of the value. */
  readonly value?: () => Value;
}

export type Parameters = Readonly<Record<string, Parameter<unknown>>>;

type Value<Of> = Of extends Parameter<infer Type> ? Type : never;

/** The values of arguments and options, as a command gets them. One that may be missing is then absent. */
export type ValuesOf<Of> = {
  readonly [Name in keyof Of as undefined extends Value<Of[Name]> ? never : Name]: Value<Of[Name]>;
} & {
  readonly [Name in keyof Of as undefined extends Value<Of[Name]> ? Name : never]?: Exclude<
    Value<Of[Name]>,
    undefined
  >;
};

/** Returns a parameter that may be missing, or has a default. */
export function option<const Read extends Reader>(
  description: string,
  reader: Read,
  details: Details & { readonly default: ValueOf<Read> },
): Parameter<ValueOf<Read>>;
export function option<const Read extends Reader>(
  description: string,
  reader: Read,
  details?: Details,
): Parameter<ValueOf<Read> | undefined>;
export function option(description: string, reader: Reader, details: Details = {}): Parameter<unknown> {
  return { ...details, description, reader };
}

/** Returns a parameter that must be given. */
export function required<const Read extends Reader>(
  description: string,
  reader: Read,
  details: Details = {},
): Parameter<ValueOf<Read>> {
  return { ...details, description, reader, isRequired: true };
}

/** Returns an argument of which one or more must be given. */
export function requiredList<Value>(
  description: string,
  rule: ParsingRule<Value>,
): Parameter<readonly Value[]> {
  const parse = parserOf(rule);
  const reader = (text: string, before: readonly Value[] | undefined) => [...(before ?? []), parse(text)];
  return { description, reader: reader as Reader, isRequired: true, isList: true };
}

/** Returns an option without a value. */
export function flag(
  description: string,
  details: Pick<Details, "conflicts" | "implies"> = {},
): Parameter<boolean> {
  return { ...details, description, default: false };
}

/** Returns the reader of an option that may be repeated, up to `most` times. */
export function repeated<Value>({ expects, parse }: ParsingRule<Value>, most: number) {
  return (text: string, before: readonly Value[] = []): readonly Value[] => {
    const value = parse(text);
    if (value === undefined) throw new InvalidArgumentError(`It must be ${expects}`);
    if (before.length >= most) throw new InvalidArgumentError(`It must be given at most ${most} times`);
    return [...before, value];
  };
}

/** Accepts every text. */
export function anyText(text: string): string {
  return text;
}

/** Returns the option as the command line defines it. */
export function toOption(name: string, parameter: Parameter<unknown>): Option {
  const { description, reader, as, isRequired, shownDefault, conflicts, implies } = parameter;
  const words = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const defined = new Option(`--${words}${reader === undefined ? "" : ` <${as ?? words}>`}`, description);
  if (isRequired) defined.makeOptionMandatory();
  if (conflicts !== undefined) defined.conflicts(conflicts);
  if (implies !== undefined) defined.implies(implies);
  defined.default(parameter.default, shownDefault);
  setReader(defined, parameter);
  return defined;
}

/** Returns the argument as the command line defines it. */
export function toArgument(name: string, parameter: Parameter<unknown>): Argument {
  const dots = parameter.isList ? "..." : "";
  const shown = parameter.isRequired ? `<${name}${dots}>` : `[${name}]`;
  const defined = new Argument(shown, parameter.description);
  setReader(defined, parameter);
  return defined;
}

function setReader(defined: Option | Argument, { reader, choices }: Parameter<unknown>): void {
  if (choices !== undefined) defined.choices(choices);
  if (reader === undefined) return;
  if (isList(reader)) defined.choices(reader);
  const rule = isList(reader) ? oneOf(reader) : reader;
  defined.argParser((typeof rule === "function" ? rule : parserOf(rule)) as (text: string) => never);
}

function parserOf<Value>({ expects, parse }: ParsingRule<Value>): (text: string) => Value {
  return (text) => {
    const value = parse(text);
    if (value !== undefined) return value;
    throw new InvalidArgumentError(`It must be ${expects}`);
  };
}

function isList(reader: Reader): reader is readonly string[] {
  return Array.isArray(reader);
}
