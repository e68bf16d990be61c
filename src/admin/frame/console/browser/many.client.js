// Sends the parts of a run one after another, and shows the page of each.

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
  // The page of a refusal has the form with what is left, and says what to do.
  if (answer?.status === 403) {
    form.submit();
    return false;
  }
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
  const result = main.querySelector("p[autofocus]");
  if (result instanceof HTMLElement) result.focus();
  return true;
}

while (await sendNext());

export {};
