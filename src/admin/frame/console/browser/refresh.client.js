// Refreshes the page once a minute, while it is visible and nobody uses it: no field is filled in, no part is open,
// nothing is selected, and no control has the focus. The session ends as it would without the requests.
const INTERVAL_MS = 60_000;
const CHECK_MS = 5_000;
let shownMs = Date.now();
let isAsking = false;

function isInUse(/** @type {Element} */ main) {
  const focused = document.activeElement;
  const isFilledIn = [...document.querySelectorAll("input, textarea")].some(
    (field) =>
      (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) &&
      field.value !== field.defaultValue,
  );
  return (
    isFilledIn ||
    main.querySelector("details[open]") !== null ||
    (focused !== main && main.contains(focused)) ||
    getSelection()?.isCollapsed === false
  );
}

/** Says once that the page is old. */
function tellOld(/** @type {Element} */ main) {
  if (document.querySelector("#old") !== null) return;
  const note = document.createElement("p");
  note.id = "old";
  note.className = "notice warning";
  note.role = "status";
  const at = new Date(shownMs).toISOString().slice(11, 16);
  note.textContent = `The service does not answer: this page is as it was at ${at} UTC.`;
  main.prepend(note);
}

async function refresh() {
  const main = document.querySelector("main");
  if (main === null || document.hidden || isAsking || Date.now() - shownMs < INTERVAL_MS || isInUse(main))
    return;
  isAsking = true;
  try {
    const answer = await fetch(location.href, { headers: { "X-Refresh": "1" } });
    // The session has ended: the page that opens says so.
    if (answer.redirected) return location.reload();
    if (!answer.ok) return tellOld(main);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    // Somebody may have begun to use the page meanwhile.
    if (next === null || isInUse(main)) return;
    const hasFocus = document.activeElement === main;
    main.replaceWith(next);
    if (hasFocus) next.focus();
    shownMs = Date.now();
  } catch {
    tellOld(main);
  } finally {
    isAsking = false;
  }
}

setInterval(refresh, CHECK_MS);
document.addEventListener("visibilitychange", refresh);

export {};
