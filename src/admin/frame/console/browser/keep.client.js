// Keeps what was typed into a marked form while the session ends: the login leads back, and the form is filled in
// again. The tab keeps one form, for an hour. Every other page than that of the login forgets it, so a form that was
// refused, cancelled or left is not filled in later. Anybody can write into the storage of a tab, so only values of
// controls change.
const KEPT = "kept";
const HOUR_MS = 3_600_000;
/** Keys, tokens and codes have so many digits, also with spaces and hyphens between them. */
const SECRET = /([\da-f][\s-]*){32}/i;
const operator = document.querySelector(".who b")?.textContent;

/** Returns the controls of a form whose values may be kept. */
function controlsOf(/** @type {HTMLFormElement} */ form) {
  return [...form.elements]
    .filter((each) => each instanceof HTMLInputElement || each instanceof HTMLSelectElement)
    .filter(({ type }) => !["hidden", "file", "password"].includes(type))
    .filter(({ name }) => !["", "code", "repeat"].includes(name));
}

/** Returns the control if it is a check box or a radio button. */
function boxOf(/** @type {Element} */ control) {
  const isBox = control instanceof HTMLInputElement && ["checkbox", "radio"].includes(control.type);
  return isBox ? control : undefined;
}

function forget() {
  sessionStorage.removeItem(KEPT);
}

/** Returns the form that opens the page again with what is selected on it, because its address does not name that. */
function selectionForm() {
  const form = document.querySelector("form[data-selection]");
  return form instanceof HTMLFormElement ? form : undefined;
}

function keep(/** @type {Element | null | undefined} */ form) {
  const selected = selectionForm();
  const isForm = form instanceof HTMLFormElement;
  if (!operator || !(isForm || selected)) return;
  const kept = new URLSearchParams({ operator, at: `${Date.now()}` });
  if (selected) {
    const fields = [...new FormData(selected)].map(([name, value]) => [name, String(value)]);
    kept.set("selection", `${new URLSearchParams(fields)}`);
  }
  if (isForm) {
    const values = controlsOf(form)
      .filter((control) => boxOf(control)?.checked ?? !SECRET.test(control.value))
      .map(({ name, value }) => [name, value]);
    kept.set("form", form.action);
    kept.set("values", `${new URLSearchParams(values)}`);
  }
  sessionStorage.setItem(KEPT, `${kept}`);
}

/** Opens the page of a selection again. It only shows what is selected. The next page fills its form in. */
function selectAgain(/** @type {HTMLFormElement} */ form, /** @type {URLSearchParams} */ kept) {
  const values = new URLSearchParams(kept.get("selection") ?? "");
  kept.delete("selection");
  sessionStorage.setItem(KEPT, `${kept}`);
  for (const control of form.elements)
    if (control instanceof HTMLInputElement) control.value = values.get(control.name) ?? "";
  form.submit();
}

function fillIn(/** @type {HTMLFormElement} */ form, /** @type {URLSearchParams} */ values) {
  for (const control of controlsOf(form)) {
    const box = boxOf(control);
    const { value } = control;
    const before = box ? box.checked : value;
    if (box) {
      const isKept = values.getAll(box.name).includes(value);
      box.checked = isKept || (box.type === "radio" && box.checked);
    } else control.value = values.get(control.name) ?? value;
    // A list may not have the choice any more.
    if (control instanceof HTMLSelectElement && control.selectedIndex === -1) control.value = value;
    if ((box ? box.checked : control.value) !== before) control.closest("details")?.setAttribute("open", "");
  }
  const note = document.createElement("p");
  note.className = "notice good";
  note.role = "status";
  note.textContent = "Filled in again: check the form and send it.";
  const title = form.querySelector("h2, h3");
  if (title) title.after(note);
  else form.prepend(note);
  form.closest("details")?.setAttribute("open", "");
}

const kept = new URLSearchParams(sessionStorage.getItem(KEPT) ?? "");
const leftMs = Number(kept.get("at") ?? Number.NaN) + HOUR_MS - Date.now();
const isInTime = leftMs > 0 && leftMs <= HOUR_MS;
forget();
if (operator === undefined && isInTime && !location.search.includes("done=logged-out")) {
  kept.set("asked", "");
  sessionStorage.setItem(KEPT, `${kept}`);
  setTimeout(forget, leftMs);
}
if (operator && operator === kept.get("operator") && kept.has("asked") && isInTime) {
  const forms = [...document.querySelectorAll("form[data-kept]")].filter(
    (each) => each instanceof HTMLFormElement,
  );
  const form = forms.find(({ action }) => action === kept.get("form"));
  const selected = selectionForm();
  if (selected && kept.has("selection")) selectAgain(selected, kept);
  else if (form) fillIn(form, new URLSearchParams(kept.get("values") ?? ""));
}

for (const event of ["input", "submit"])
  addEventListener(
    event,
    ({ target }) => target instanceof Element && keep(target.closest("form[data-kept]")),
  );
addEventListener("reset", forget);
// A form that was refused for want of a fresh login shows what was typed until its link is followed.
addEventListener("click", ({ target }) => {
  const link = target instanceof Element ? target.closest("a[href^='/console/enter']") : null;
  keep(link?.closest("form[data-kept]"));
});

export {};
