// Logs in with the code of a link. The code is after the #: browsers do not send that part, so no log of addresses has
// it.
const form = document.querySelector("form");
const input = document.querySelector("input");

function enter() {
  const code = location.hash.slice(1);
  if (code === "" || form === null || input === null) return;
  history.replaceState(null, "", location.pathname);
  input.value = code;
  form.requestSubmit();
}

// A second link in the same tab changes only the part after the #.
addEventListener("hashchange", enter);
enter();

export {};
