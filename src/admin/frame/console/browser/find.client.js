// Puts the focus into the search box: / while no field has the focus, Ctrl-K always. Nothing that is found begins with /.
const input = document.querySelector("#find");
if (input instanceof HTMLInputElement) {
  // A phone has no such keys, and no room for the hint.
  if (matchMedia("(min-width: 40rem)").matches) input.placeholder += " ( / )";
  addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, target } = event;
    const isEmpty = target === input && input.value === "";
    const isInField =
      !isEmpty && target instanceof Element && target.closest("input, select, textarea") !== null;
    const isSlash = key === "/" && !ctrlKey && !metaKey && !altKey && !isInField;
    if (!isSlash && !(key.toLowerCase() === "k" && (ctrlKey || metaKey) && !altKey)) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

// On a phone the menu is one row, and most browsers do not scroll it to the current entry. The next entry is cut, which
// shows that there are more.
const menu = document.querySelector(".top nav");
const current = menu?.querySelector("[aria-current]");
if (menu && current) {
  menu.scrollLeft += current.getBoundingClientRect().right + 40 - menu.getBoundingClientRect().right;
}

export {};
