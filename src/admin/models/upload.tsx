/** @jsxImportSource hono/jsx */
/** How the API and the page of a model take the file of a version that waits for it. */

import * as v from "valibot";
import { isRefusal, type Refusal, refuse } from "../../base/refusal.ts";
import { parsedField } from "../../base/rule.ts";
import { isSha256, MODEL_RULES, NO_PUBLIC_URL, type Upload } from "../../models/mod.ts";
import { refuseEncoded } from "../../wire/mod.ts";
import { answerRefusal } from "../frame/answer.ts";
import { parseSent, toQuery } from "../frame/api/parse_sent.ts";
import { modelVersionFor } from "../frame/api/path_ids.ts";
import { Field } from "../frame/console/components/form.tsx";
import { Copyable, Notice } from "../frame/console/components/layout.tsx";
import type { ConsoleRoute } from "../frame/console/route.ts";
import type { Visit } from "../frame/console/visit.ts";
import type { AdminOptions } from "../frame/options.ts";
import { uploadCommand } from "./add_command.ts";

/** The browser computes the SHA-256 of a file at once, so the whole file is in its memory. */
const BROWSER_MAX_GB = 1;

export const UPLOAD_PATH = modelVersionFor("upload file");
export const UPLOAD_QUERY = v.strictObject({ file_name: v.optional(parsedField(MODEL_RULES.fileName)) });
/** The headers of an upload, for the OpenAPI document. */
export const UPLOAD_HEADERS = [
  { name: "Content-Length", required: true, description: "The size of the file in bytes" },
  { name: "X-Checksum-SHA256", description: "The SHA-256 of the file in hexadecimal digits" },
  { name: "Digest", description: "In its place: `sha-256=` and the SHA-256 of the file in base64" },
].map((each) => ({ ...each, in: "header", schema: { type: "string" } }));

const WRONG_HEADERS = refuse(
  "INVALID_REQUEST",
  "Cannot upload file: the header Content-Length must be its size in bytes, at least 1, and X-Checksum-SHA256 its SHA-256 in " +
    "hexadecimal digits, or Digest sha-256= and its SHA-256 in base64",
);

/** A version without a file has no tag that `If-Match` could name, and a file never changes. */
const CONDITIONAL = refuse(
  "PRECONDITION_FAILED",
  "Cannot upload file: leave out the header If-Match; a version gets a file once",
);

const TOO_LARGE_FOR_PAGE = refuse(
  "PAYLOAD_TOO_LARGE",
  `Cannot upload file: the console takes at most ${BROWSER_MAX_GB} GB; send a larger file with a token, as the page of the model shows`,
);

/** Takes the file of a version from the body of a request, and renders what the version has now. */
export async function takeFile(
  { uploads, database, publicUrl }: Pick<AdminOptions, "uploads" | "database" | "publicUrl">,
  {
    request: { headers, body },
    ...upload
  }: Omit<Upload, "body" | "sha256" | "sizeBytes"> & { readonly request: Request },
): Promise<object | Refusal> {
  const encoded = refuseEncoded(headers);
  if (encoded !== undefined) return encoded;
  if (headers.has("if-match")) return CONDITIONAL;
  const sizeBytes = Number(headers.get("content-length") ?? 0);
  const sha256 = readChecksum(headers);
  if (!(sizeBytes > 0) || body === null || sha256 === undefined) return WRONG_HEADERS;
  if (publicUrl === undefined) return refuse("CONFLICT", `Cannot upload file: ${NO_PUBLIC_URL}`);
  const { name, version } = upload;
  const refused = await uploads.receive(database, { ...upload, body, sizeBytes, sha256 });
  return refused ?? { name, version, size_bytes: sizeBytes, checksum: `sha256:${sha256}` };
}

/** Reads the SHA-256 in the headers; undefined if there is none, or if two differ. */
function readChecksum(headers: Headers): string | undefined {
  const [, base64] =
    /(?:^|,)\s*sha-256=([A-Za-z0-9+/]{43}=)\s*(?:,|$)/i.exec(headers.get("digest") ?? "") ?? [];
  const digest = base64 && Buffer.from(base64, "base64").toString("hex");
  const checksum = headers.get("x-checksum-sha256")?.toLowerCase() ?? digest;
  const isValid = checksum !== undefined && isSha256(checksum) && (digest ?? checksum) === checksum;
  return isValid ? checksum : undefined;
}

/** The answer to the page's script: JSON, as from the API. */
export const UPLOAD: ConsoleRoute = {
  method: "PUT",
  path: "/models/:name/:version/file",
  scope: "models:write",
  async answer({ options, params, query, actor, right }, c) {
    const of = UPLOAD_PATH.read(params);
    if (isRefusal(of)) return answerRefusal(c, of);
    const sent = toQuery(query);
    const named = isRefusal(sent) ? sent : parseSent(UPLOAD_QUERY, sent, "query");
    if (isRefusal(named)) return answerRefusal(c, named);
    const request = c.req.raw;
    if (Number(request.headers.get("content-length")) > BROWSER_MAX_GB * 1e9)
      return answerRefusal(c, TOO_LARGE_FOR_PAGE);
    const taken = await takeFile(options, { ...of, fileName: named.file_name, request, actor, right });
    return isRefusal(taken) ? answerRefusal(c, taken) : c.json(taken);
  },
};

const mostGbOf = ({ uploads }: Visit["options"]) => Math.min(uploads.uploadMaxGb, BROWSER_MAX_GB);

/** Says how large a file may be, and what is checked. */
export function uploadHint(options: Visit["options"]): string {
  return `At most ${mostGbOf(options)} GB. The service checks that the file is whole before clients see the version.`;
}

/** Says before an upload that the service would take no file. */
export function NoAddress({ visit: { may, options } }: { readonly visit: Visit }) {
  if (options.publicUrl !== undefined || !may("models:write")) return null;
  return <Notice kind="warning">{`The service takes no model file yet: ${NO_PUBLIC_URL}.`}</Notice>;
}

/** The form for a file, which the page's script shows and sends, and the command that does the same. */
export function UploadForm({ name, version, visit }: Pick<Upload, "name" | "version"> & { visit: Visit }) {
  const { origin, options } = visit;
  const id = `file-of-${version}`;
  const path = `/models/${[name, version, "file"].map(encodeURIComponent).join("/")}`;
  return (
    <section class="upload">
      <h2>{`Upload the file of ${version}`}</h2>
      <form data-upload={`/console${path}`} data-most-bytes={mostGbOf(options) * 1e9} hidden>
        <fieldset>
          <Field label="File" name="file" id={id} hint={uploadHint(options)}>
            <input id={id} type="file" required aria-describedby={`${id}-hint`} />
          </Field>
          <button type="submit">Upload</button>
        </fieldset>
        <progress value="0" aria-label="Progress of the upload" hidden />
        <output />
      </form>
      <p>
        {`Or send a file of up to ${options.uploads.uploadMaxGb} GB with this command, from any machine that reaches the address. `}
        The file <code>token.header</code> holds <code>Authorization: Bearer</code> and a token with the scope{" "}
        <code>models:write</code>.
      </p>
      <Copyable id={`command-of-${version}`} text={uploadCommand(origin, path)} label="Copy the command" />
    </section>
  );
}
