/** @jsxImportSource hono/jsx */
/** What charts of every kind share: legend, values at the pointer and the keyboard, areas of narrow steps, and folded numbers. */
import type { Child } from "hono/jsx";
import { scriptPath } from "../assets.ts";

/** What stands for a time that is not over, beside its hatch. */
export const NOT_OVER = "not over";

interface LegendProps {
  readonly parts: readonly string[];
  readonly limit?: { readonly label: string } | undefined;
  /** False if the limit has no line. */
  readonly hasLine?: boolean;
  /** The id of the hatch, if a bar has it. */
  readonly hatch?: string | undefined;
}

/** The names of the parts beside their colors, the limit, and what a hatched bar means. */
export function Legend({ parts, limit, hasLine = false, hatch }: LegendProps) {
  if (parts.length === 1 && limit === undefined && hatch === undefined) return null;
  return (
    <ul class="legend">
      {parts.length > 1 &&
        parts.map((name, index) => (
          <li>
            <svg aria-hidden="true">
              <rect width="100%" height="100%" class={`part-${index}`} />
            </svg>
            {name}
          </li>
        ))}
      {limit && (
        <li>
          {hasLine && (
            <svg aria-hidden="true">
              <line class="limit" x2="100%" y1="50%" y2="50%" />
            </svg>
          )}
          {hasLine ? limit.label : `${limit.label}, above this chart`}
        </li>
      )}
      {hatch !== undefined && (
        <li>
          <svg aria-hidden="true">
            <rect width="100%" height="100%" class="part-0" />
            <rect width="100%" height="100%" fill={`url(#${hatch})`} />
          </svg>
          {NOT_OVER}
        </li>
      )}
    </ul>
  );
}

/** The labels below a chart; `x` is the place of each. A picture has its name already. */
export function Below({ children }: { readonly children: Child }) {
  return (
    <svg class="below" y="100%" text-anchor="middle" aria-hidden="true">
      {children}
    </svg>
  );
}

interface ValuesProps {
  readonly caption: string;
  /** For each column its title and its values, each on a line. */
  readonly texts: readonly string[];
}

/** The values of each column, over its place. The last column is the one that the focus shows first. */
export function Values({ caption, texts }: ValuesProps) {
  return (
    <>
      <div
        class="values"
        role="slider"
        tabIndex={0}
        aria-label={`Values of the chart: ${caption}`}
        aria-valuemin={1}
        aria-valuemax={texts.length}
        aria-valuenow={texts.length}
        aria-valuetext={texts.at(-1)}
      >
        {texts.map((text, index) => {
          // From here on the values stand at the left of their column, so that they stay inside the chart.
          const isMiddle = index === Math.min(texts.length - 1, Math.ceil(texts.length / 2));
          const classes = [isMiddle && "late", index === texts.length - 1 && "at"].filter(Boolean);
          return (
            <i class={classes.join(" ") || undefined}>
              <b>{text}</b>
            </i>
          );
        })}
      </div>
      <script type="module" src={scriptPath("chart")} />
    </>
  );
}

interface StepsProps {
  /** The part whose color it has. */
  readonly part: number;
  /** For each step its share of the height, from 0 to 1. */
  readonly shares: readonly number[];
  readonly height: number;
}

/**
 * The area below many narrow steps, each of the width 1. One path, because a page can have thousands of them. A share above 0
 * is never invisible.
 */
export function Steps({ part, shares, height }: StepsProps) {
  const tops = shares.map((share) => height - (share > 0 ? Math.max(1, Math.round(share * height)) : 0));
  let path = `M0 ${height}`;
  for (let index = 0, width = 1; index < tops.length; index += width) {
    width = 1;
    while (tops[index + width] === tops[index]) width++;
    path += `V${tops[index]}h${width}`;
  }
  return <path class={`part-${part}`} d={`${path}V${height}z`} />;
}

/** The numbers of a chart in a table, which are folded. */
export function Numbers({ caption, children }: { readonly caption: string; readonly children: Child }) {
  return (
    <details class="numbers">
      <summary>Numbers</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: numbers wider than a phone scroll, also by keyboard. */}
      <section tabIndex={0} aria-label={`Numbers: ${caption}`}>
        {children}
      </section>
    </details>
  );
}

export function percent(value: number): string {
  return `${Math.round(value * 100) / 100}%`;
}
