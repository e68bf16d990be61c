// Selects all rows of a page, or all between two clicks with Shift, and counts them. Sends the parts of a run one after
// another, and shows the page of each.
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
  const show = () => {
    const selected = boxes.filter((box) => box.checked).length;
    button.textContent = selected === boxes.length ? "Select none" : `Select these ${boxes.length}`;
    count.textContent = selected === 0 ? "" : `${selected} selected`;
  };
  button.addEventListener("click", () => {
    const isAny = boxes.some((box) => !box.checked);
    for (const box of boxes) box.checked = isAny;
    show();
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

/** Sends the next part, and returns whether there is another one. */
async function sendNext() {
  const form = document.querySelector("form[data-continues]");
  if (!(form instanceof HTMLFormElement)) return false;
  const button = form.querySelector("button");
  if (button) button.hidden = true;
  const fields = [...new FormData(form)].map(([name, value]) => [name, String(value)]);
  const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(fields) }).catch(
    () => undefined,
  );
  const text = answer?.ok && !answer.redirected ? await answer.text().catch(() => "") : "";
  const next = new DOMParser().parseFromString(text, "text/html");
  const main = next.querySelector("main");
  if (main === null) {
    if (button) button.hidden = false;
    const note = document.createElement("p");
    note.role = "alert";
    note.textContent = "The service did not answer. Continue in a moment: nothing is done twice.";
    form.append(note);
    return false;
  }
  document.title = next.title;
  document.querySelector("main")?.replaceWith(main);
  // At the end people hear what was done.
  if (main.querySelector("[data-continues]") === null) main.focus();
  return true;
}

while (await sendNext());

export {};
