/**
 * The colors of charts: they can be seen on the page, and told apart with every kind of color blindness.
 *
 * Sources: color blindness after Machado, Oliveira and Fernandes (2009), severity 1.0; distances in Oklab (Ottosson, 2020),
 * where black and white have a distance of 1; contrast as in WCAG 2.2.
 */
import { describe, expect, test } from "bun:test";
import base from "../../src/admin/frame/console/style/base.css" with { type: "text" };
import charts from "../../src/admin/frame/console/style/charts.css" with { type: "text" };

type Three = readonly [number, number, number];
type Matrix = readonly [Three, Three, Three];

const SIGHTS: Readonly<Record<string, Matrix>> = {
  "all colors": [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
const TO_CONES: Matrix = [
  [0.4122214708, 0.5363325363, 0.0514459929],
  [0.2119034982, 0.6806995451, 0.1073969566],
  [0.0883024619, 0.2817188376, 0.6299787005],
];
const TO_LAB: Matrix = [
  [0.2104542553, 0.793617785, -0.0040720468],
  [1.9779984951, -2.428592205, 0.4505937099],
  [0.0259040371, 0.7827717662, -0.808675766],
];

const dot = (a: Three, b: Three) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const apply = (matrix: Matrix, color: Three): Three => [
  dot(matrix[0], color),
  dot(matrix[1], color),
  dot(matrix[2], color),
];
const map = (color: Three, change: (value: number) => number): Three => [
  change(color[0]),
  change(color[1]),
  change(color[2]),
];

/** Reads `#0a4fc4` as linear light. */
function toLight(hex: string): Three {
  const byteAt = (index: number) => Number.parseInt(hex.slice(index, index + 2), 16) / 255;
  return map([byteAt(1), byteAt(3), byteAt(5)], (value) =>
    value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
  );
}

const seen = (color: Three, sight: Matrix) =>
  map(apply(sight, color), (value) => Math.min(1, Math.max(0, value)));
const toLab = (color: Three) => apply(TO_LAB, map(apply(TO_CONES, color), Math.cbrt));
const luminance = (color: Three) => dot([0.2126, 0.7152, 0.0722], color) + 0.05;

function distance(one: Three, other: Three): number {
  const [a, b] = [toLab(one), toLab(other)];
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

/** The values of a variable, the light one first. */
const variable = (name: string, css: string) =>
  [...css.matchAll(new RegExp(`--${name}: (#[0-9a-f]{6});`, "g"))].map(([, hex = ""]) => hex);

describe.each([["light"], ["dark"]])("The colors of charts in %s pages", (scheme) => {
  const at = scheme === "light" ? 0 : 1;
  const surface = toLight(variable("surface", base)[at] ?? "");
  const colors = [
    ...[0, 1, 2, 3].map((part) => variable(`part-${part}`, charts)[at] ?? ""),
    // The fifth part has the color of text. The sixth one has only a border.
    variable("text", base)[at] ?? "",
  ];

  test("have a contrast of 3 with the surface", () => {
    for (const hex of colors) {
      const [dark = 0, light = 0] = [luminance(surface), luminance(toLight(hex))].sort((a, b) => a - b);
      expect(light / dark, hex).toBeGreaterThanOrEqual(3);
    }
  });

  test.each(Object.entries(SIGHTS))("are told apart with %s", (_, sight) => {
    for (const [index, one] of colors.entries()) {
      for (const other of colors.slice(index + 1)) {
        const between = distance(seen(toLight(one), sight), seen(toLight(other), sight));
        expect(between, `${one} and ${other}`).toBeGreaterThan(0.1);
      }
    }
  });
});
