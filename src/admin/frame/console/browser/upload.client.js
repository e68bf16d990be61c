// Uploads the file of a version: computes its SHA-256, sends it, and says in words what happens. The service lists the
// version only if the bytes that arrived have the same SHA-256.
const inMb = (/** @type {number} */ bytes) =>
  (bytes / 1_000_000).toLocaleString("en", { maximumFractionDigits: bytes < 10_000_000 ? 2 : 0 });

async function sha256Of(/** @type {File} */ file) {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Sends the file. Returns why that failed, or the request that has stored it. */
async function send(
  /** @type {string} */ address,
  /** @type {File} */ file,
  /** @type {{ checksum: string, onProgress: (event: ProgressEvent) => void }} */ { checksum, onProgress },
) {
  const request = new XMLHttpRequest();
  request.open("PUT", `${address}?${new URLSearchParams({ file_name: file.name })}`);
  request.setRequestHeader("X-Checksum-SHA256", checksum);
  // `fetch` does not tell how much was sent.
  request.upload.addEventListener("progress", onProgress);
  const ended = new Promise((resolve) => request.addEventListener("loadend", resolve));
  request.send(file);
  await ended;
  if (request.status === 0) return { failure: "The connection was lost. Upload the file again." };
  const isJson = request.getResponseHeader("Content-Type")?.startsWith("application/json");
  if (!isJson)
    return { failure: "Nothing was stored: the session has ended, or your role has changed. Log in again." };
  if (request.status !== 200) return { failure: `${JSON.parse(request.responseText).error}.` };
  return { stored: request.getResponseHeader("X-Request-Id") };
}

// The uploads of a page run one after the other. Only the last one may load the page again: that would end the others.
let turn = Promise.resolve();
let unfinished = 0;

function prepareUpload(/** @type {HTMLFormElement} */ form) {
  const { upload, mostBytes } = form.dataset;
  const input = form.querySelector("input");
  const controls = form.querySelector("fieldset");
  const progress = form.querySelector("progress");
  const status = form.querySelector("output");
  if (upload === undefined || !input || !controls || !progress || !status) return;
  form.hidden = false;

  const say = (/** @type {string} */ text, kind = "") => {
    status.className = kind;
    status.textContent = text;
  };
  const onProgress = (/** @type {ProgressEvent} */ { loaded, total }) => {
    progress.value = loaded / total;
    say(
      loaded < total
        ? `Sending the file: ${inMb(loaded)} of ${inMb(total)} MB.`
        : "All bytes are sent: the service checks and stores them.",
    );
  };

  /** Uploads the file. Returns why that failed, or the request that has stored it. */
  const uploadFile = async (/** @type {File} */ file) => {
    if (file.size === 0) return { failure: "Choose a file that is not empty." };
    if (file.size > Number(mostBytes))
      return { failure: `The file has ${inMb(file.size)} MB: use the command below.` };
    say("Computing the SHA-256 of the file…");
    const checksum = await sha256Of(file).catch(() => undefined);
    if (checksum === undefined)
      return { failure: "The browser cannot read the file. Choose it again, or use the command below." };
    progress.hidden = false;
    const sent = await send(upload, file, { checksum, onProgress });
    progress.hidden = true;
    return sent;
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [file] = input.files ?? [];
    if (file === undefined) return;
    controls.disabled = true;
    if (unfinished++ > 0) say("Waits until the other upload on this page has ended.");
    turn = turn.then(async () => {
      const { failure, stored } = await uploadFile(file);
      unfinished--;
      if (failure !== undefined) {
        controls.disabled = false;
        say(failure, "notice bad");
      } else if (unfinished > 0) say("The file has arrived.", "notice good");
      else location.replace(`${location.pathname}?done=${stored}`);
    });
  });
}

/** Sends the form of a new model, and shows the page that answers it. The chosen file is uploaded there. */
function prepareNew(/** @type {HTMLFormElement} */ form) {
  const input = form.querySelector("input[type=file]");
  const hidden = form.querySelector("[hidden]");
  if (!(input instanceof HTMLInputElement) || !(hidden instanceof HTMLElement)) return;
  hidden.hidden = false;
  form.addEventListener("submit", async (event) => {
    // Without a file the browser sends the form.
    if (!input.files?.length) return;
    event.preventDefault();
    if (event.submitter instanceof HTMLButtonElement) event.submitter.disabled = true;
    const fields = new URLSearchParams([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    const answer = await fetch(form.action, { method: "POST", body: fields }).catch(() => undefined);
    const text = await answer?.text().catch(() => "");
    const next = new DOMParser().parseFromString(text ?? "", "text/html");
    const main = next.querySelector("main");
    if (answer === undefined || main === null) return form.submit();
    document.title = next.title;
    history.replaceState(null, "", answer.url);
    document.querySelector("main")?.replaceWith(main);
    for (const each of main.querySelectorAll("form")) prepare(each);
    const [name, version] = ["name", "version"].map((field) =>
      encodeURIComponent(fields.get(field)?.trim() ?? ""),
    );
    const upload = main.querySelector(`[data-upload="/console/models/${name}/${version}/file"]`);
    const again = (upload ?? main.querySelector("[data-uploads-after]"))?.querySelector("input[type=file]");
    if (again instanceof HTMLInputElement) again.files = input.files;
    if (upload instanceof HTMLFormElement) upload.requestSubmit();
    const first = main.querySelector("[autofocus]") ?? main;
    if (upload === null && first instanceof HTMLElement) first.focus();
  });
}

function prepare(/** @type {HTMLFormElement} */ form) {
  if ("uploadsAfter" in form.dataset) prepareNew(form);
  else prepareUpload(form);
}
for (const form of document.forms) prepare(form);

export {};
