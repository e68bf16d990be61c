/**
 * The demo's models: linear classifiers with made-up weights. The files are real ONNX and can be loaded. Their bytes
 * are the same on every machine.
 */
import { createHash } from "node:crypto";
import type { Brand } from "../../licensing/mod.ts";
import models from "./models.json" with { type: "json" };

/**
 * Makes the demo's models: the public models that the contract's decisions name. `fields` is the input of
 * {@linkcode parseNewModel}, without the fields that depend on the stored file.
 */
export function makeDemoModels({ modelTypes }: Brand) {
  return models.map((model) => {
    // The list names the place of a type in the brand's types. A brand may have fewer.
    const fields = { ...model, type: modelTypes[model.type] ?? modelTypes[0] };
    return { fields, file: renderClassifier(model) };
  });
}

const FLOAT = 1;

/**
 * Writes the ONNX file of `scores = features × weights + bias`.
 * Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */
function renderClassifier({ name, nFeatures, nClasses }: (typeof models)[number]): Buffer {
  const tensor = (what: string, dims: readonly number[]) => {
    const weights = makeWeights(`${name} ${what}`, dims);
    return message(...dims.map((dim): Field => [1, dim]), [2, FLOAT], [8, what], [9, weights]);
  };
  const value = (what: string, width: number) => {
    const dims = [1, width].map((dim): Field => [1, message([1, dim])]);
    return message([1, what], [2, message([1, message([1, FLOAT], [2, message(...dims)])])]);
  };
  const node = message([1, "features"], [1, "weights"], [1, "bias"], [2, "scores"], [4, "Gemm"]);
  const graph = message(
    [1, node],
    [2, name],
    [5, tensor("weights", [nFeatures, nClasses])],
    [5, tensor("bias", [nClasses])],
    [11, value("features", nFeatures)],
    [12, value("scores", nClasses)],
  );
  return message([1, 8], [2, "claviger demo"], [7, graph], [8, message([2, 13])]);
}

/** Makes floats between -1 and 1; the same seed gives the same floats. */
function makeWeights(seed: string, dims: readonly number[]): Buffer {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const random = createHash("shake256", { outputLength: count * 2 })
    .update(seed)
    .digest();
  const weights = Buffer.alloc(count * 4);
  for (let i = 0; i < count; i++) weights.writeFloatLE(random.readInt16LE(i * 2) / 32_768, i * 4);
  return weights;
}

/** The number of a field, and its value. */
type Field = readonly [number: number, value: number | string | Buffer];

/** Writes a message in Protocol Buffers. Source: https://protobuf.dev/programming-guides/encoding */
function message(...fields: readonly Field[]): Buffer {
  const parts = fields.flatMap(([number, value]) => {
    if (typeof value === "number") return [varint(number << 3), varint(value)];
    const bytes = typeof value === "string" ? Buffer.from(value) : value;
    return [varint((number << 3) | 2), varint(bytes.length), bytes];
  });
  return Buffer.concat(parts);
}

function varint(value: number): Buffer {
  const digits: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) digits.push((rest % 128) | 128);
  return Buffer.from([...digits, rest]);
}
