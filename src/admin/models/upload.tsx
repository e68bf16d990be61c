/** @jsxImportSource hono/jsx */
/** How the page of a model takes the file of a version that waits for it. */
import { MODEL_RULES, type ModelVersion } from "../../models/mod.ts";
import { isRefusal } from "../../refusal.ts";
import { answerRefusal } from "../frame/answer.ts";
import { Field } from "../frame/console/components/form.tsx";
import { Copyable } from "../frame/console/components/layout.tsx";
import type { ConsoleRoute } from "../frame/console/route.ts";
import type { AdminOptions } from "../frame/options.ts";
import { uploadCommand } from "./add_command.ts";
import { takeFile, UPLOAD_PATH } from "./take_file.ts";

/** The browser computes the SHA-256 of a file at once, so the whole file is in its memory. */
const BROWSER_MAX_GB = 1;

/** The answer to the page's script: JSON, as from the API. */
export const UPLOAD: ConsoleRoute = {
  method: "PUT",
  path: "/models/:name/:version/file",
  scope: "models:write",
  async answer({ options, params, query, actor }, c) {
    const of = UPLOAD_PATH.read(params);
    if (isRefusal(of)) return answerRefusal(c, of);
    const fileName = MODEL_RULES.fileName.parse(query.get("file_name") ?? "");
    const taken = await takeFile(options, { ...of, fileName, request: c.req.raw, actor });
    return isRefusal(taken) ? answerRefusal(c, taken) : c.json(taken);
  },
};

interface Props {
  readonly name: string;
  readonly version: ModelVersion;
  /** Where the browser reaches the console: the command sends the file there, too. */
  readonly origin: string;
  readonly options: Pick<AdminOptions, "uploads">;
}

/** The form for a file, which the page's script shows and sends, and the command that does the same. */
export function UploadForm({ name, version: { version }, origin, options: { uploads } }: Props) {
  const id = `file-of-${version}`;
  const path = `/models/${[name, version, "file"].map(encodeURIComponent).join("/")}`;
  const mostGb = Math.min(uploads.uploadMaxGb, BROWSER_MAX_GB);
  const hint = `At most ${mostGb} GB. The service checks size and SHA-256 before clients see the version.`;
  return (
    <section class="upload">
      <h2>{`Upload the file of ${version}`}</h2>
      <form data-upload={`/console${path}`} data-most-bytes={mostGb * 1e9} hidden>
        <fieldset>
          <Field label="File" name="file" id={id} hint={hint}>
            <input id={id} type="file" required aria-describedby={`${id}-hint`} />
          </Field>
          <button type="submit">Upload</button>
        </fieldset>
        <progress value="0" aria-label="Progress of the upload" hidden />
        <output />
      </form>
      <p>
        {`Or send a file of up to ${uploads.uploadMaxGb} GB with this command, from any machine that reaches the address. `}
        The file <code>token.header</code> holds <code>Authorization: Bearer</code> and a token with the scope{" "}
        <code>models:write</code>.
      </p>
      <Copyable id={`command-of-${version}`} text={uploadCommand(origin, path)} label="Copy the command" />
    </section>
  );
}
