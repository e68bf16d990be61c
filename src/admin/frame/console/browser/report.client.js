// Fills a field from a file: a form sends text alone.
for (const input of document.querySelectorAll("input[type=file][data-fills]")) {
  if (!(input instanceof HTMLInputElement)) continue;
  const field = document.getElementById(input.dataset.fills ?? "");
  const box = input.closest("[data-with-file]");
  if (!(field instanceof HTMLInputElement) || !(box instanceof HTMLElement)) continue;
  box.hidden = false;
  input.addEventListener("change", async () => {
    const [file] = input.files ?? [];
    if (file !== undefined) field.value = (await file.text()).trim();
  });
}

export {};
