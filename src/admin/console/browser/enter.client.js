// Logs in with the code of a link. It is behind the #, which browsers do not send, so it appears in no log of addresses.
const form = document.querySelector("form");
const input = document.querySelector("input");

function enter() {
  const code = location.hash.slice(1);
  if (code === "" || form === null || input === null) return;
  history.replaceState(null, "", location.pathname);
  input.value = code;
  form.requestSubmit();
}

// A second link in the same tab changes only what is behind the #.
addEventListener("hashchange", enter);
enter();

export {};
