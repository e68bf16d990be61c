// Selects all rows of a page, or those between two clicks with Shift, and counts them.
const list = document.querySelector("form.selects");
const boxes = [...(list?.querySelectorAll("tbody th > input") ?? [])].filter(
  (box) => box instanceof HTMLInputElement,
);
const bar = list?.querySelector(".actions");
if (bar && boxes.length > 0) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  const count = document.createElement("span");
  count.role = "status";
  bar.prepend(button, count);
  // All rows that meet the conditions: more than those of the page, which look selected, too.
  const all = bar.querySelector("[name=all]");
  // On the only page both would mean the same.
  if (!document.querySelector("#pages > :is([href*=after], [href*=before])")) all?.closest("label")?.remove();
  const isAll = () => all instanceof HTMLInputElement && all.checked;
  all?.addEventListener("change", () => {
    for (const box of boxes) box.checked = isAll();
    show();
  });
  const show = () => {
    const selected = boxes.filter((box) => box.checked).length;
    const these = boxes.length === 1 ? "this one" : `these ${boxes.length}`;
    button.textContent = selected === boxes.length ? "Select none" : `Select ${these}`;
    if (all instanceof HTMLInputElement && selected < boxes.length) all.checked = false;
    count.textContent = selected === 0 || isAll() ? "" : `${selected} selected`;
  };
  button.addEventListener("click", () => {
    const isAny = boxes.some((box) => !box.checked);
    for (const box of boxes) box.checked = isAny;
    show();
  });
  // Enter in a check box would send the form, although people did not choose a button.
  list?.addEventListener("keydown", (event) => {
    if (event instanceof KeyboardEvent && event.key === "Enter" && event.target instanceof HTMLInputElement)
      event.preventDefault();
  });
  let last = 0;
  for (const [at, box] of boxes.entries())
    box.addEventListener("click", ({ shiftKey }) => {
      const between = boxes.slice(Math.min(last, at), Math.max(last, at));
      if (shiftKey) for (const other of between) other.checked = box.checked;
      last = at;
      show();
    });
  // The browser may restore what was selected.
  addEventListener("pageshow", show);
}

export {};
