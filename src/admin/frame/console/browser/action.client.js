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

export {};
