// Moves the column whose values a chart shows while it has the focus. Escape hides the values.
/** @type {Partial<Record<string, number>>} */
const STEPS = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -7,
  PageUp: 7,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

addEventListener("keydown", (event) => {
  const chart = document.activeElement;
  const step = STEPS[event.key];
  const isEscape = event.key === "Escape";
  if (
    !chart?.matches(".values") ||
    (step === undefined && !isEscape) ||
    event.altKey ||
    event.ctrlKey ||
    event.metaKey
  )
    return;
  event.preventDefault();
  const columns = [...chart.children];
  const old = Number(chart.ariaValueNow) - 1;
  columns[old]?.classList.remove("at");
  if (step === undefined) return;
  const next = Math.min(columns.length - 1, Math.max(0, old + step));
  columns[next]?.classList.add("at");
  chart.ariaValueNow = `${next + 1}`;
  chart.ariaValueText = columns[next]?.textContent ?? "";
});

export {};
