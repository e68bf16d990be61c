// Escape and Cancel close an open action without a request. What was entered is discarded.
function close(/** @type {Element | null | undefined} */ action) {
  if (!(action instanceof HTMLDetailsElement)) return;
  action.querySelector("form")?.reset();
  action.open = false;
  action.querySelector("summary")?.focus();
}

addEventListener("keydown", ({ key, isComposing }) => {
  if (key === "Escape" && !isComposing) close(document.querySelector(".action[open]"));
});
for (const link of document.querySelectorAll("a[data-closes]"))
  link.addEventListener("click", (event) => {
    event.preventDefault();
    close(link.closest(".action"));
  });

// Shows the whole of an open form, and puts the focus into it: on its first wrong field, else on the notice of a refusal,
// else on its first field.
function enter(/** @type {Element | null} */ action) {
  action?.querySelector("form")?.scrollIntoView({ block: "nearest" });
  for (const control of [
    "[aria-invalid]:not(fieldset), fieldset[aria-invalid] input",
    ".notice.bad",
    "input:not([type=hidden]), select",
  ]) {
    const found = action?.querySelector(`form :is(${control})`);
    if (found instanceof HTMLElement) return found.focus();
  }
}

// Only after the load: until then the browser can still move the focus to the form that the address names. If it names
// the title, people are to read the page first.
addEventListener("load", () => {
  if (document.querySelector("#title:target") === null) enter(document.querySelector(".action[open]"));
});
for (const action of document.querySelectorAll("details.action"))
  action.addEventListener("toggle", () => action.hasAttribute("open") && enter(action));

// A file leaves the page as it is: fetch it, and then show what has changed. A refusal is a page, as without script.
for (const form of document.querySelectorAll(".action form[data-download]"))
  form.addEventListener("submit", async (event) => {
    if (!(form instanceof HTMLFormElement)) return;
    event.preventDefault();
    const page = form.action.replace(/\/[^/]*$/, "");
    const body = new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    const answer = await fetch(form.action, { method: "POST", body }).catch(() => undefined);
    const name = /filename="([^"]+)"/.exec(answer?.headers.get("Content-Disposition") ?? "")?.[1];
    // The browser itself says if the service did not answer.
    if (answer === undefined || name === undefined) return form.submit();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = name;
    link.click();
    location.assign(`${page}?done=${answer.headers.get("X-Request-Id")}`);
  });

export {};
