// Shows the buttons that copy a text, and makes them copy it.
for (const button of document.querySelectorAll("button[data-copies]")) {
  if (!(button instanceof HTMLButtonElement)) continue;
  const text = document.getElementById(button.dataset.copies ?? "")?.textContent ?? "";
  const status = button.nextElementSibling;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const isCopied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    if (status !== null)
      status.textContent = isCopied ? "Copied" : "The browser does not allow it: select the text and copy it";
  });
}

export {};
