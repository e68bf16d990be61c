/** Reads the identifiers in paths. An identifier that cannot exist is refused like one that does not exist. */
import { type IdKind, idForm, idRule } from "../../../base/ids.ts";
import { type Refusal, refuse } from "../../../base/refusal.ts";
import { oneOf } from "../../../base/rule.ts";
import { TIERS, type Tier } from "../../../licensing/mod.ts";
import { MODEL_RULES } from "../../../models/mod.ts";
import type { Json } from "../../../wire/mod.ts";

/** The parts of a path that are not fixed, as they were sent. */
export type Params = Readonly<Record<string, string>>;

/** Reads what a path names. */
export interface PathReader<Path extends object> {
  /** Describes the parameters of the path for the document. */
  readonly parameters: readonly Json[];
  /** The code if there is no such thing. */
  readonly code: "KEY_NOT_FOUND" | "NOT_FOUND";
  read(params: Params): Path | Refusal;
}

/** Reads the UUID of the key in the path. `what` is the action that the refusal of an unknown key names. */
export const keyFor = idIn("key", {
  holder: "a key",
  code: "KEY_NOT_FOUND",
  description: "The key's identifier, which is not the key",
});
/** Reads the UUID of the license in the path. */
export const licenseFor = idIn("lic", { holder: "a license", description: "The license's identifier" });
/** Reads the UUID of the account in the path. */
export const accountFor = idIn("usr", { holder: "an account", description: "The account's identifier" });
/** Reads the UUID of the machine in the path. */
export const machineFor = idIn("mch", { holder: "a machine", description: "The machine's identifier" });
/** Reads the UUID of the notice in the path. */
export const noticeFor = idIn("ntc", { holder: "a notice", description: "The notice's identifier" });
/** Reads the tier in the path. */
export const tierFor = (what: string): PathReader<{ readonly what: string; readonly tier: Tier }> => ({
  parameters: [parameter("tier", "The tier", TIER.keywords)],
  code: "NOT_FOUND",
  read({ tier: text = "" }) {
    const tier = TIER.parse(text);
    return tier === undefined
      ? refuse("NOT_FOUND", `Cannot ${what}: the path must hold ${TIER.expects}`)
      : { what, tier };
  },
});
const TIER = oneOf(TIERS);
/** Reads the name of the model in the path. */
export const modelFor = modelIn("name");
/** Reads the name and the version of the model in the path. */
export const modelVersionFor = modelIn("name", "version");

interface IdOptions extends Partial<Pick<PathReader<object>, "code">> {
  readonly holder: string;
  readonly description: string;
}

function idIn(kind: IdKind, { holder, code = "NOT_FOUND", description }: IdOptions) {
  const { keywords, parse } = idRule(kind);
  const why = `the path must hold ${holder}'s id, ${idForm(kind)}`;
  const parameters = [parameter("id", description, keywords)];
  return (what: string): PathReader<{ readonly what: string; readonly uuid: string }> => ({
    parameters,
    code,
    read({ id = "" }) {
      const uuid = parse(id);
      return uuid === undefined ? refuse(code, `Cannot ${what}: ${why}`) : { what, uuid };
    },
  });
}

function modelIn<Name extends "name" | "version">(...names: readonly Name[]) {
  const parameters = names.map((name) => parameter(name, `The model's ${name}`));
  return (what: string): PathReader<Readonly<Record<Name, string>>> => ({
    parameters,
    code: "NOT_FOUND",
    read(params) {
      return names.every((name) => MODEL_RULES[name].parse(params[name] ?? "") !== undefined)
        ? (params as Record<Name, string>)
        : refuse("NOT_FOUND", `Cannot ${what}: no model has the name or version in the path`);
    },
  });
}

function parameter(name: string, description: string, keywords: Json = {}): Json {
  return { name, in: "path", required: true, description, schema: { type: "string", ...keywords } };
}
