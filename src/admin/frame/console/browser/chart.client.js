// Moves the column whose values a chart shows while it has the focus.
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
  if (!chart?.matches(".values") || step === undefined || event.altKey || event.ctrlKey || event.metaKey)
    return;
  event.preventDefault();
  const columns = [...chart.children];
  const old = columns.findIndex(({ classList }) => classList.contains("at"));
  const next = Math.min(columns.length - 1, Math.max(0, old + step));
  columns[old]?.classList.remove("at");
  columns[next]?.classList.add("at");
  chart.ariaValueNow = `${next + 1}`;
  chart.ariaValueText = columns[next]?.textContent ?? "";
});

export {};
