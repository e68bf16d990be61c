import type { Rule } from "../base/rule.ts";
import { lineOf } from "../database/mod.ts";

/** The person or program that makes a change. */
export interface Actor {
  readonly kind: keyof typeof DOORS;
  /** A client's address, a user of the host, the name of a token or an operator, or the part of the service. */
  readonly name: string;
  readonly reason?: string | undefined;
  /** The identifier of the request, `req_…`; undefined for a command. */
  readonly request?: string | undefined;
  /** The address that the request came from; undefined for a command. */
  readonly address?: string | undefined;
}

/** Who makes a change, why and when. */
export interface By {
  readonly actor: Actor;
  readonly now: Date;
}

/** How each kind of actor comes in. */
export const DOORS = {
  http: "client",
  command: "command",
  token: "api",
  operator: "console",
  service: "service",
} as const;

/** The service itself, for what it notes in the background. */
export const UPKEEP: Actor = { kind: "service", name: "upkeep" };

/** Returns the actors that a text can mean: the actor itself, or a name with each kind. */
export function actorsOf(text: string): readonly string[] {
  return ACTOR.test(text) ? [text] : KINDS.map((kind) => `${kind}:${text}`);
}

/** Returns the actor as the audit log names it, such as `token:shop`. */
export function nameOfActor({ kind, name }: Actor): string {
  return `${kind}:${name}`;
}

/** How the text of an actor's name, such as `token:shop`, is said in words. */
const WORDS: Readonly<Record<Actor["kind"], (name: string) => string>> = {
  http: (name) => `the client ${name}`,
  command: (name) => `${name}, with a command on the host`,
  token: (name) => `the token ${name}`,
  operator: (name) => `${name}, in the console`,
  service: () => "the service itself",
};

/** Says in words who the actor with this text is: `command:root` is `root, with a command on the host`. */
export function describeActor(text: string): string {
  const [kind, ...name] = text.split(":");
  return WORDS[kind as Actor["kind"]]?.(name.join(":")) ?? text;
}

const KINDS = Object.keys(DOORS);
const LINE = lineOf(1, 300);

/** The rule for an actor, or for its name without the kind. */
export const ACTOR_OR_NAME: Rule<string> = LINE;

/** The rule for the reason of a change. */
export const REASON_TEXT = lineOf(0, 2_000);

/** The rule for the reason of a change that needs one. */
export const NEEDED_REASON_TEXT = lineOf(1, 2_000);

/** The form of an actor in the audit log. */
const ACTOR = new RegExp(`^(${KINDS.join("|")}):.`);

/** The rule for the text of an actor. Without its kind, no row has it. */
export const ACTOR_TEXT: Rule<string> = {
  expects: `a kind and a name, such as token:shop; the kinds are ${KINDS.join(", ")}`,
  keywords: { ...LINE.keywords, pattern: ACTOR.source },
  parse: (text) => (ACTOR.test(text) ? LINE.parse(text) : undefined),
};
