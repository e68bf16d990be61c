// Uploads the file of a version: computes its SHA-256, sends it, and says in words what happens. The service lists the
// version only if the bytes that arrived have the same SHA-256.
const inMb = (/** @type {number} */ bytes) =>
  (bytes / 1_000_000).toLocaleString("en", { maximumFractionDigits: bytes < 10_000_000 ? 2 : 0 });

async function sha256Of(/** @type {File} */ file) {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Sends the file and returns why that failed; undefined if it did not. */
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
  if (request.status === 0) return "The connection was lost. Upload the file again.";
  const isJson = request.getResponseHeader("Content-Type")?.startsWith("application/json");
  if (!isJson) return "Nothing was stored: the session has ended, or your role has changed. Log in again.";
  return request.status === 200 ? undefined : `${JSON.parse(request.responseText).error}.`;
}

for (const form of document.forms) {
  const { upload, mostBytes } = form.dataset;
  const input = form.querySelector("input");
  const controls = form.querySelector("fieldset");
  const progress = form.querySelector("progress");
  const status = form.querySelector("output");
  if (upload === undefined || !input || !controls || !progress || !status) continue;
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

  /** Uploads the file and returns why that failed; undefined if it did not. */
  const uploadFile = async (/** @type {File} */ file) => {
    if (file.size === 0) return "Choose a file that is not empty.";
    if (file.size > Number(mostBytes)) return `The file has ${inMb(file.size)} MB: use the command below.`;
    say("Computing the SHA-256 of the file…");
    const checksum = await sha256Of(file).catch(() => undefined);
    if (checksum === undefined)
      return "The browser cannot read the file. Choose it again, or use the command below.";
    progress.hidden = false;
    const failure = await send(upload, file, { checksum, onProgress });
    progress.hidden = true;
    if (failure !== undefined) return failure;
    controls.hidden = true;
    const size = `${file.size.toLocaleString("en")} bytes`;
    say(
      `The file has arrived: ${size}, with the SHA-256 that this browser computed, ${checksum}. Clients see the version now. `,
      "notice good",
    );
    const link = document.createElement("a");
    link.href = location.pathname;
    link.textContent = "Show the version";
    status.append(link);
    return undefined;
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [file] = input.files ?? [];
    if (file === undefined) return;
    controls.disabled = true;
    const failure = await uploadFile(file);
    if (failure === undefined) return;
    controls.disabled = false;
    say(failure, "notice bad");
  });
}

export {};
