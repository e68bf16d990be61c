/** @jsxImportSource hono/jsx */
/**
 * Bar charts that the server renders as SVG.
 *
 * Positions are percentages, and the style sets the size of text in the page's own unit. So a chart fills every width
 * and its text stays readable. In a picture that shrinks as a whole the text would shrink too. The parts of stacked
 * bars differ in their texture and always have the order of the legend, so that they are told apart without color.
 */
import { renderCount } from "../../../../render_count.ts";
import { roundTicks, toShort, widthsOfLabels } from "./scale.ts";
import { numeric, Table } from "./table.tsx";
import { Textures, textureOf } from "./textures.tsx";

/** A mark that needs no color: a triangle that points in this direction, and a word. */
export interface Mark {
  readonly points: "up" | "down";
  readonly word: string;
}

/** A column of a chart: a bar, composed of one value for each part. */
interface Bar {
  /** Short, such as `2026-11`: a few of the labels stand below the chart, and all of them in the table. */
  readonly label: string;
  /** The text of the mark; by default the label with its numbers. */
  readonly title?: string;
  /** A mark above the bar, whose word is in the table; the title should say why. */
  readonly mark?: Mark | undefined;
  /** As many as the chart has parts. */
  readonly values: readonly number[];
}

interface BarsProps {
  readonly caption: string;
  /** What a column is, such as `Month`: the heading of the labels in the table. */
  readonly columnName: string;
  /** What the numbers count, such as `Inferences`; or the names of up to six parts, from the bottom up. */
  readonly parts: readonly string[];
  readonly series: readonly Bar[];
  /** A chart of several parts needs one that differs from that of every other chart of the page. */
  readonly id?: string;
  /** A line across the bars. It is left out if the bars are far below it, because they would be invisible. */
  readonly limit?: { readonly value: number; readonly label: string } | undefined;
  /** The sentence that takes the place of a chart without any number. */
  readonly empty?: string;
}

const sumOf = ({ values }: Bar) => values.reduce((sum, value) => sum + value, 0);
/** No line is drawn if the limit is more than this many times the highest bar. */
const LIMIT_REACH = 4;

/** A bar chart, with its numbers in a table. */
export function Bars({ caption, columnName, parts, series, id = "", limit, empty }: BarsProps) {
  const stack = { id, parts, series };
  const highest = Math.max(0, ...series.map(sumOf));
  const line = limit && limit.value <= highest * LIMIT_REACH ? limit : undefined;
  return (
    <figure class="chart">
      <figcaption>{caption}</figcaption>
      {highest === 0 ? (
        <p class="muted">{empty ?? "There is nothing to show for this time."}</p>
      ) : (
        <>
          <Legend {...stack} limit={limit} hasLine={line !== undefined} />
          <Plot {...stack} caption={caption} limit={line} highest={Math.max(highest, line?.value ?? 0)} />
          <Numbers {...stack} caption={caption} columnName={columnName} />
        </>
      )}
    </figure>
  );
}

type Stack = Required<Pick<BarsProps, "id" | "parts" | "series">>;

function Legend({ id, parts, limit, hasLine }: Stack & Pick<BarsProps, "limit"> & { hasLine: boolean }) {
  if (parts.length === 1 && limit === undefined) return null;
  return (
    <ul class="legend">
      {parts.length > 1 &&
        parts.map((name, index) => (
          <li>
            <svg aria-hidden="true">
              {index === 0 && <Textures id={id} count={parts.length} />}
              <rect width="100%" height="100%" {...textureOf(id, index)} />
            </svg>
            {name}
          </li>
        ))}
      {limit && (
        <li>
          {hasLine && (
            <svg aria-hidden="true">
              <line class="limit" x1="0" x2="100%" y1="50%" y2="50%" />
            </svg>
          )}
          {hasLine ? limit.label : `${limit.label}, above this chart`}
        </li>
      )}
    </ul>
  );
}

interface PlotProps extends Stack {
  readonly caption: string;
  readonly limit: BarsProps["limit"];
  /** The highest bar, or the limit's line if that is higher. */
  readonly highest: number;
}

function Plot({ caption, limit, highest, ...stack }: PlotProps) {
  const ticks = roundTicks(highest);
  const top = ticks.at(-1) ?? 1;
  const yOf = (value: number) => percent(100 - (value * 100) / top);
  return (
    <div class="plot">
      <div class="ticks" aria-hidden="true">
        {ticks.toReversed().map((tick) => (
          <span>{toShort(tick)}</span>
        ))}
      </div>
      <svg role="img" aria-label={caption}>
        {ticks.map((tick) => (
          <line class="grid" x1="0" x2="100%" y1={yOf(tick)} y2={yOf(tick)} />
        ))}
        {stack.series.map((column, index) => (
          <Marks {...stack} column={column} index={index} top={top} />
        ))}
        {limit && (
          <g>
            <title>{limit.label}</title>
            <line class="limit" x1="0" x2="100%" y1={yOf(limit.value)} y2={yOf(limit.value)} />
          </g>
        )}
        <Labels labels={stack.series.map(({ label }) => label)} />
      </svg>
    </div>
  );
}

/** The share of a column's width that its bar takes. */
const BAR_WIDTH = 0.8;
/** A value above 0 is never invisible. */
const LEAST_HEIGHT = 0.75;

/** One column. Its title appears all over its height, because a low bar would be hard to point at. */
function Marks({ column, index, top, ...stack }: Stack & { column: Bar; index: number; top: number }) {
  const { id, parts, series } = stack;
  const width = 100 / series.length;
  const x = percent(width * (index + (1 - BAR_WIDTH) / 2));
  let base = 100;
  return (
    <g>
      <title>{column.title ?? describeColumn(column, parts)}</title>
      <rect class="slot" x={percent(width * index)} width={percent(width)} height="100%" />
      {column.values.map((value, part) => {
        if (value === 0) return null;
        const height = Math.max(LEAST_HEIGHT, (value * 100) / top);
        base -= height;
        const box = { x, width: percent(width * BAR_WIDTH), y: percent(base), height: percent(height) };
        return <rect {...box} {...textureOf(id, part)} />;
      })}
      {column.mark && (
        <svg x={percent(width * (index + 0.5))} y={percent(base)} aria-hidden="true">
          <Triangle {...column.mark} />
        </svg>
      )}
    </g>
  );
}

/** The triangle of a mark, above the point at 0. */
function Triangle({ points }: Pick<Mark, "points">) {
  return <path class="mark" d={points === "up" ? "M-5 -3h10l-5 -9z" : "M-5 -12h10l-5 9z"} />;
}

/** A mark in text: its triangle and its word. */
export function Marked({ points, word }: Mark) {
  return (
    <b class="marked">
      <svg viewBox="-6 -13 12 12" aria-hidden="true">
        <Triangle points={points} />
      </svg>{" "}
      {word}
    </b>
  );
}

function describeColumn(column: Bar, parts: readonly string[]): string {
  if (parts.length === 1) return `${column.label}: ${renderCount(sumOf(column))}`;
  const values = parts.map((name, part) => `${name} ${renderCount(column.values[part] ?? 0)}`);
  return `${column.label}: ${values.join(", ")}`;
}

/** Above this many columns, the outer labels would leave the chart if they stood below the middle of their bars. */
const CENTERED = 12;

function Labels({ labels }: { readonly labels: readonly string[] }) {
  const widths = widthsOfLabels(labels);
  const places = labels.map((_, index) => {
    const isInner = labels.length <= CENTERED || (index > 0 && index < labels.length - 1);
    if (isInner) return { x: percent((100 / labels.length) * (index + 0.5)), "text-anchor": "middle" };
    return index === 0 ? { x: "0", "text-anchor": "start" } : { x: "100%", "text-anchor": "end" };
  });
  return labels.map((label, index) => {
    const shownAt = widths[index]?.join(" ");
    if (!shownAt) return null;
    return (
      <text class={shownAt} y="100%" dy="1.4em" {...places[index]}>
        {label}
      </text>
    );
  });
}

function Numbers({ caption, columnName, parts, series }: Stack & { caption: string; columnName: string }) {
  const columns = [
    {
      label: columnName,
      cell: ({ label, mark }: Bar) => (
        <>
          {label}
          {mark && " "}
          {mark && <Marked {...mark} />}
        </>
      ),
    },
    ...parts.map((name, part) => numeric(name, ({ values }: Bar) => renderCount(values[part] ?? 0))),
    ...(parts.length > 1 ? [numeric("All", (bar: Bar) => renderCount(sumOf(bar)))] : []),
  ];
  return (
    <details class={parts.length === 1 ? "numbers pairs" : "numbers"}>
      <summary>Numbers</summary>
      <Table caption={caption} columns={columns} rows={series} />
    </details>
  );
}

function percent(value: number): string {
  return `${Math.round(value * 100) / 100}%`;
}
