// Logs in with the code of a link. The code is after the #: browsers do not send that part, so no log of addresses has
// it. The tab keeps the page to which the login leads, because a link that is opened in the tab later does not name it.
const KEPT = "to";
const form = document.querySelector("form");
const code = document.querySelector("#code");
const to = document.querySelector("[name=to]");

function enter() {
  const text = location.hash.slice(1);
  if (text === "" || form === null || !(code instanceof HTMLInputElement)) return;
  history.replaceState(null, "", location.pathname);
  code.value = text;
  form.requestSubmit();
}

if (to instanceof HTMLInputElement) {
  if (location.hash === "") sessionStorage.setItem(KEPT, to.value);
  else to.value = sessionStorage.getItem(KEPT) ?? to.value;
}
// After a refusal the page names it again.
form?.addEventListener("submit", () => sessionStorage.removeItem(KEPT));
// A second link in the same tab changes only the part after the #.
addEventListener("hashchange", enter);
enter();

export {};
