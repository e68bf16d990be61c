// Puts the focus into the search box: / while no text field has the focus, Ctrl-K always. Nothing that is found begins
// with /. Escape leaves the box as it is, and a form of the page, too.
const input = document.querySelector("#find");
if (input instanceof HTMLInputElement) {
  // A phone has no such keys, and no room for the hint.
  if (matchMedia("(min-width: 40rem)").matches) input.placeholder += " ( / )";
  addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, target } = event;
    const isEmpty = target === input && input.value === "";
    const isInField =
      !isEmpty &&
      target instanceof Element &&
      target.matches("input:not([type=checkbox], [type=radio], [type=file]), textarea");
    const isSlash = key === "/" && !ctrlKey && !metaKey && !altKey && !isInField;
    if (!isSlash && !(key.toLowerCase() === "k" && (ctrlKey || metaKey) && !altKey)) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    input.blur();
  });
}

// The space bar follows a link that looks like a button, as it presses a button.
addEventListener("keydown", (event) => {
  const { key, target, ctrlKey, altKey, metaKey, shiftKey, repeat } = event;
  if (key !== " " || ctrlKey || altKey || metaKey || shiftKey || !(target instanceof HTMLAnchorElement))
    return;
  if (!target.matches(".button, .opens")) return;
  event.preventDefault();
  if (!repeat) target.click();
});

export {};
