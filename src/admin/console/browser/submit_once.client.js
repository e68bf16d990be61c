// A second click while the answer is awaited would send the form twice.
addEventListener("submit", (event) => {
  const { submitter } = /** @type {SubmitEvent} */ (event);
  if (submitter instanceof HTMLButtonElement) submitter.disabled = true;
});
// The page may come back from the browser's memory.
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button")) button.disabled = false;
});

export {};
