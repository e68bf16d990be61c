/** @jsxImportSource hono/jsx */
/** The textures of stacked bars, so that their parts are told apart without color. */

/** The textures of parts; `style/charts.css` colors the plain ones. */
const TEXTURES: readonly (string | undefined)[] = [
  undefined,
  "M3 0v6",
  undefined,
  "M3 0v6M0 3h6",
  "M2 3h2",
  undefined,
];

/** Returns the attributes of a mark of the part with an index; `id` is that of the chart. */
export function textureOf(id: string, part: number) {
  const isPlain = TEXTURES[part] === undefined;
  return { class: `part-${part}`, fill: isPlain ? undefined : `url(#${id}-part-${part})` };
}

/** The patterns of a chart, for {@linkcode textureOf}. */
export function Textures({ id, count }: { readonly id: string; readonly count: number }) {
  return (
    <defs>
      {TEXTURES.slice(0, count).map(
        (path, part) =>
          path !== undefined && (
            <pattern
              id={`${id}-part-${part}`}
              width="6"
              height="6"
              patternUnits="userSpaceOnUse"
              patternTransform="rotate(45)"
            >
              <rect width="6" height="6" />
              <path d={path} />
            </pattern>
          ),
      )}
    </defs>
  );
}
