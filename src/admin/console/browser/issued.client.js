// Makes a reload show the list of keys: otherwise it would send the form again and issue a second key.
history.replaceState(null, "", "/console/keys");

const key = document.querySelector("#api-key")?.textContent ?? "";
const button = document.querySelector("#copy");
const status = document.querySelector("#copy-status");

if (button instanceof HTMLButtonElement && status !== null) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const isCopied = await navigator.clipboard.writeText(key).then(
      () => true,
      () => false,
    );
    status.textContent = isCopied ? "Copied" : "The browser does not allow it: select the key and copy it";
  });
}

export {};
