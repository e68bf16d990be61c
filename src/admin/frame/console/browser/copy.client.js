// Shows the buttons that copy a text, and makes them copy it. If the browser does not allow that, they select it.
for (const button of document.querySelectorAll("button[data-copies]")) {
  if (!(button instanceof HTMLButtonElement)) continue;
  const source = document.getElementById(button.dataset.copies ?? "");
  const status = button.nextElementSibling;
  button.hidden = false;
  // The page with a new key or token is about copying it.
  if (button.dataset.copies?.startsWith("new-")) button.focus();
  button.addEventListener("click", async () => {
    const isCopied = await navigator.clipboard.writeText(source?.textContent ?? "").then(
      () => true,
      () => false,
    );
    if (!isCopied && source) getSelection()?.selectAllChildren(source);
    if (status !== null)
      status.textContent = isCopied
        ? "Copied"
        : "The browser does not allow it: the text is selected, copy it";
  });
}

export {};
