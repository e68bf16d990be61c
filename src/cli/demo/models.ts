/**
 * The demo's models: linear classifiers with made-up weights. The files are real ONNX and can be loaded. Their bytes are
 * the same on every machine.
 */
import { createHash } from "node:crypto";
import type { Brand } from "../../brand.ts";

export interface DemoModel {
  /** The input of {@linkcode parseNewModel}, without the fields that depend on the stored file. */
  readonly fields: {
    readonly name: string;
    readonly version: string;
    readonly nFeatures: number;
    readonly nClasses: number;
  };
  readonly file: Buffer;
}

/** Makes the demo's models: the public models that the contract's decisions name. */
export function makeDemoModels(brand: Brand): readonly DemoModel[] {
  const [lda, qda = lda, probit = lda] = brand.modelTypes;
  const models = [
    {
      name: "motor_imagery_4class_v1",
      type: lda,
      paradigm: "motor_imagery",
      nFeatures: 44,
      nClasses: 4,
      requiresLicense: "free",
      metadata: { description: "Left hand, right hand, feet and tongue", training_subjects: 9 },
    },
    {
      name: "motor_imagery_2class_v1",
      type: lda,
      paradigm: "motor_imagery",
      nFeatures: 22,
      nClasses: 2,
      requiresLicense: "free",
      metadata: { description: "Left hand and right hand", training_subjects: 9 },
    },
    {
      name: "p300_binary_v1",
      type: probit,
      paradigm: "p300",
      nFeatures: 128,
      nClasses: 2,
      requiresLicense: "research",
      metadata: { description: "Target and non-target", recommended_use: "spellers" },
    },
    {
      name: "ssvep_multiclass_v1",
      type: qda,
      paradigm: "ssvep",
      nFeatures: 96,
      nClasses: 8,
      requiresLicense: "research",
      metadata: { description: "Eight flicker frequencies" },
    },
  ];
  return models.map((model) => ({ fields: { ...model, version: "1.0.0" }, file: renderClassifier(model) }));
}

interface Shape {
  readonly name: string;
  readonly nFeatures: number;
  readonly nClasses: number;
}

const FLOAT = 1;

/**
 * Writes the ONNX file of `scores = features × weights + bias`.
 * Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 */
function renderClassifier({ name, nFeatures, nClasses }: Shape): Buffer {
  const tensor = (what: string, dims: readonly number[]) =>
    message(
      ...dims.map((dim) => number(1, dim)),
      number(2, FLOAT),
      text(8, what),
      bytes(9, makeWeights(`${name} ${what}`, dims)),
    );
  const value = (what: string, width: number) => {
    const dims = [1, width].map((dim) => bytes(1, message(number(1, dim))));
    return message(
      text(1, what),
      bytes(2, message(bytes(1, message(number(1, FLOAT), bytes(2, message(...dims)))))),
    );
  };
  const node = message(
    ...["features", "weights", "bias"].map((input) => text(1, input)),
    text(2, "scores"),
    text(4, "Gemm"),
  );
  const graph = message(
    bytes(1, node),
    text(2, name),
    bytes(5, tensor("weights", [nFeatures, nClasses])),
    bytes(5, tensor("bias", [nClasses])),
    bytes(11, value("features", nFeatures)),
    bytes(12, value("scores", nClasses)),
  );
  const operators = message(number(2, 13));
  return message(number(1, 8), text(2, "claviger demo"), bytes(7, graph), bytes(8, operators));
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

/** Joins the fields of a message in Protocol Buffers. Source: https://protobuf.dev/programming-guides/encoding */
function message(...fields: readonly Buffer[]): Buffer {
  return Buffer.concat(fields);
}

function number(field: number, value: number): Buffer {
  return Buffer.concat([varint(field << 3), varint(value)]);
}

function bytes(field: number, value: Buffer): Buffer {
  return Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);
}

function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value));
}

function varint(value: number): Buffer {
  const digits: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) digits.push((rest % 128) | 128);
  return Buffer.from([...digits, rest]);
}
