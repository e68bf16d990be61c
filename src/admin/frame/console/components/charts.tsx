/** @jsxImportSource hono/jsx */
/**
 * Bar charts that the server renders as SVG.
 *
 * Positions are percentages, and the style sets the size of text in the page's own unit. So a chart fills every width
 * and its text stays readable. (If the whole picture shrank, its text would shrink, too.) The colors of stacked
 * parts differ for every kind of color blindness, and the parts always have the order of the legend.
 *
 * The style shows the values of the column under the pointer. While a chart has the keyboard focus and no pointer is over
 * it, the style shows the values of one column, at first the newest. The script moves to another column with the arrow
 * keys.
 */
import { renderCount } from "../../../../base/render_count.ts";
import { Below, Legend, NOT_OVER, Numbers, percent, Values } from "./chart_parts.tsx";
import { roundTicks, toShort, widthsOfLabels } from "./scale.ts";
import { numeric, Table } from "./table.tsx";

/** A mark that needs no color: a triangle that points in this direction, and a word. */
interface Mark {
  readonly points: "up" | "down";
  readonly word: string;
}

/** A column of a chart: a bar, composed of one value for each part. */
interface Bar {
  /** Short, such as `2026-11`: a few of the labels stand below the chart, and all of them in the table. */
  readonly label: string;
  /** Lines above the numbers of the column, by default the label. */
  readonly title?: string;
  /** A mark above the bar, whose word is in the table; the title should say why. */
  readonly mark?: Mark | undefined;
  /** Its time is not over, so its numbers will grow: the bar is hatched, and words say why. */
  readonly isOpen?: boolean;
  /** As many as the chart has parts. */
  readonly values: readonly number[];
}

interface BarsProps {
  readonly caption: string;
  /** What a column is, such as `Month`: the heading of the labels in the table. */
  readonly columnName: string;
  /** What the numbers count, such as `Inferences`; or the names of up to six parts, from the bottom up. */
  readonly parts: readonly string[];
  /** The oldest column first. */
  readonly series: readonly Bar[];
  /** What stands after the sum of all columns, such as `inferences`. */
  readonly unit: string;
  /**
   * Columns of two equally long times, the earlier time first, and its name, such as `the 90 days before`. A column whose
   * time is not over is left out, because it would make every comparison too low.
   */
  readonly compared?: { readonly columns: readonly Pick<Bar, "values">[]; readonly than: string } | undefined;
  /** A line across the bars. It is left out if the bars are far below it, because they would be invisible. */
  readonly limit?: { readonly value: number; readonly label: string } | undefined;
  /** The sentence that takes the place of a chart without any number. */
  readonly empty?: string;
}

const addUp = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);
const sumOf = ({ values }: Pick<Bar, "values">) => addUp(values);
/** No line is drawn if the limit is more than this many times the highest bar. */
const LIMIT_REACH = 4;

/** A bar chart, with its numbers in a table. */
export function Bars({ caption, columnName, parts, series, unit, compared, limit, empty }: BarsProps) {
  const stack = { parts, series };
  const highest = Math.max(0, ...series.map(sumOf));
  const line = limit && limit.value <= highest * LIMIT_REACH ? limit : undefined;
  return (
    <figure class="chart">
      <figcaption>{caption}</figcaption>
      {highest === 0 ? (
        <p class="muted">{empty ?? "There is nothing to show for this time."}</p>
      ) : (
        <>
          <p class="total">
            <b>{renderCount(addUp(series.map(sumOf)))}</b> {unit}
            {compared && `, ${changeOfHalves(compared.columns.map(sumOf))} ${compared.than}`}
          </p>
          <Legend
            parts={parts}
            limit={limit}
            hasLine={line !== undefined}
            hatch={series.some((bar) => bar.isOpen && sumOf(bar) > 0) ? hatchOf(caption) : undefined}
          />
          <Plot {...stack} caption={caption} limit={line} highest={Math.max(highest, line?.value ?? 0)} />
          <Numbers caption={caption}>
            <BarNumbers {...stack} caption={caption} columnName={columnName} />
          </Numbers>
        </>
      )}
    </figure>
  );
}

/** Says how the sum of the second half differs from that of the first half. */
function changeOfHalves(values: readonly number[]): string {
  const middle = values.length / 2;
  return describeChange(addUp(values.slice(0, middle)), addUp(values.slice(middle)));
}

/** Says how a number differs from an earlier one: `12 % more than in`. */
export function describeChange(earlier: number, later: number): string {
  if (earlier === 0) return "none in";
  const percent = Math.round((later * 100) / earlier) - 100;
  if (percent === 0) return "as many as in";
  return `${renderCount(Math.abs(percent))} % ${percent > 0 ? "more" : "less"} than in`;
}

/**
 * Compares the months of a chart of twelve that are over with as many before the chart. The last column is this month, and
 * there are at least 24.
 */
export function compareYear(columns: readonly Pick<Bar, "values">[]): BarsProps["compared"] {
  return {
    columns: columns.slice(-23, -1),
    than: "the eleven months before this chart; this month is not compared",
  };
}

type Stack = Pick<BarsProps, "parts" | "series">;

/** Returns the id of the hatch of a chart: captions tell the charts of a page apart. */
const hatchOf = (caption: string) => `hatch-${caption.replaceAll(/\W+/g, "-")}`;

type PlotProps = Stack & Pick<BarsProps, "caption" | "limit">;

/** The bars; `highest` is the highest of them, or the limit's line if that is higher. */
function Plot({ caption, limit, highest, ...stack }: PlotProps & { readonly highest: number }) {
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
        {stack.series.some(({ isOpen }) => isOpen) && (
          <pattern
            id={hatchOf(caption)}
            width="6"
            height="6"
            patternUnits="userSpaceOnUse"
            patternTransform="rotate(45)"
          >
            <path class="hatch" d="M3 0v6" />
          </pattern>
        )}
        {ticks.map((tick) => (
          <line class="grid" x2="100%" y1={yOf(tick)} y2={yOf(tick)} />
        ))}
        <svg
          class="steps"
          aria-hidden="true"
          viewBox={`0 0 ${stack.series.length * UNITS} ${UNITS_HIGH}`}
          preserveAspectRatio="none"
        >
          {stack.parts.map((_, part) => (
            <Part series={stack.series} part={part} top={top} />
          ))}
        </svg>
        {stack.series.map((column, index) => (
          <Marks {...stack} caption={caption} column={column} index={index} top={top} />
        ))}
        {limit && <line class="limit" x2="100%" y1={yOf(limit.value)} y2={yOf(limit.value)} />}
        <Below>
          <Labels labels={stack.series.map(({ label }) => label)} />
        </Below>
      </svg>
      <Values caption={caption} texts={stack.series.map((column) => describeColumn(column, stack.parts))} />
    </div>
  );
}

/** The width of a column and the height of a chart, in the units of the paths. */
const UNITS = 10;
const UNITS_HIGH = 1_000;
/** The share of a column's width that its bar takes. */
const BAR_WIDTH = 0.8;
/** A value above 0 is never invisible. */
const LEAST_HEIGHT = 0.75;

/** The heights of the parts of a bar, in percent of the chart. */
const heightsOf = ({ values }: Pick<Bar, "values">, top: number) =>
  values.map((value) => (value === 0 ? 0 : Math.max(LEAST_HEIGHT, (value * 100) / top)));

interface PartProps extends Pick<Stack, "series"> {
  readonly part: number;
  readonly top: number;
}

/** One part of all bars. One path, because a page can have hundreds of bars. */
function Part({ series, part, top }: PartProps) {
  const unitsOf = (percents: readonly number[]) => Math.round((addUp(percents) * UNITS_HIGH) / 100);
  const width = UNITS * BAR_WIDTH;
  const path = series.map((column, index) => {
    const heights = heightsOf(column, top);
    if (!heights[part]) return "";
    const base = unitsOf(heights.slice(0, part));
    const height = unitsOf(heights.slice(0, part + 1)) - base;
    return `M${index * UNITS + (UNITS - width) / 2} ${UNITS_HIGH - base}h${width}v-${height}h-${width}z`;
  });
  return path.some((bar) => bar !== "") && <path class={`part-${part}`} d={path.join("")} />;
}

interface MarksProps {
  readonly caption: string;
  readonly column: Bar;
  readonly index: number;
  readonly series: Stack["series"];
  readonly top: number;
}

/** The hatch over a bar, and the mark above it. */
function Marks({ caption, column, index, series, top }: MarksProps) {
  const width = 100 / series.length;
  const height = addUp(heightsOf(column, top));
  const y = percent(100 - height);
  return (
    <>
      {column.isOpen && height > 0 && (
        <rect
          x={percent(width * (index + (1 - BAR_WIDTH) / 2))}
          width={percent(width * BAR_WIDTH)}
          y={y}
          height={percent(height)}
          fill={`url(#${hatchOf(caption)})`}
        />
      )}
      {column.mark && (
        <svg x={percent(width * (index + 0.5))} y={y} aria-hidden="true">
          <Triangle {...column.mark} />
        </svg>
      )}
    </>
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

/** Returns the label or title of a column and its numbers, each on a line. */
function describeColumn(column: Bar, parts: readonly string[]): string {
  const values = parts.map((name, part) => `${name} ${renderCount(column.values[part] ?? 0)}`);
  if (parts.length > 1) values.push(`All ${renderCount(sumOf(column))}`);
  const [first, ...more] = (column.title ?? column.label).split("\n");
  return [column.isOpen ? `${first}, ${NOT_OVER}` : first, ...more, ...values].join("\n");
}

/** Above this many columns, the outer labels would leave the chart if they stood below the middle of their bars. */
const CENTERED = 12;

function Labels({ labels }: { readonly labels: readonly string[] }) {
  const widths = widthsOfLabels(labels);
  const places = labels.map((_, index) => {
    const isInner = labels.length <= CENTERED || (index > 0 && index < labels.length - 1);
    if (isInner) return { x: percent((100 / labels.length) * (index + 0.5)) };
    return index === 0 ? { "text-anchor": "start" } : { x: "100%", "text-anchor": "end" };
  });
  return labels.map((label, index) => {
    const shownAt = widths[index]?.join(" ");
    if (!shownAt) return null;
    return (
      <text class={shownAt} {...places[index]}>
        {label}
      </text>
    );
  });
}

function BarNumbers({ caption, columnName, parts, series }: Stack & { caption: string; columnName: string }) {
  const columns = [
    {
      label: columnName,
      cell: ({ label, mark, isOpen }: Bar) => (
        <>
          {isOpen ? `${label}, ${NOT_OVER}` : label}
          {mark && " "}
          {mark && <Marked {...mark} />}
        </>
      ),
    },
    ...parts.map((name, part) => numeric(name, ({ values }: Bar) => renderCount(values[part] ?? 0))),
    ...(parts.length > 1 ? [numeric("All", (bar: Bar) => renderCount(sumOf(bar)))] : []),
  ];
  return (
    <Table
      caption={caption}
      columns={columns}
      rows={series.toReversed()}
      stays={parts.length === 1 ? "few" : "matrix"}
    />
  );
}
