// Disables the button: a second click before the answer would send the form twice. For the server these are two requests: it
// would issue two keys, or refuse the second rotation and show the refusal instead of the new key.
addEventListener("submit", (event) => {
  const { submitter, target } = /** @type {SubmitEvent} */ (event);
  // Another script sends it.
  if (event.defaultPrevented) return;
  // A file leaves the page as it is, and people may want a second one.
  if (target instanceof HTMLElement && "download" in target.dataset) return;
  if (submitter instanceof HTMLButtonElement) submitter.disabled = true;
});
// The browser may restore the page from its cache, with disabled buttons.
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button")) button.disabled = false;
});

export {};
