/** What the requests for the file of a model do: download it, whole or in ranges, and read its size. */
import { type EndpointOperation, type Operations, parameters, WITH_GOOD_KEY } from "./operation.ts";

const file = {
  description:
    "Use the address from the list unchanged, or send a key. The bytes at an address never change, and the " +
    "tag is their SHA-256. An answer with the whole file counts against the limit each time, also if the " +
    "request asked for `bytes=0-`. After a file was counted, its smaller ranges and HEAD requests are free for " +
    "15 minutes. A refusal counts each time. By default one key may have 128 downloads in progress, and 16 " +
    "while three quarters of all places for downloads are taken.",
  isLink: true,
  codes: [...WITH_GOOD_KEY, "INVALID_LINK", "NOT_FOUND", "LICENSE_REQUIRED", "PRECONDITION_FAILED"],
  parameters: [
    ...parameters("path", {
      name: ["The model's name", "motor_imagery_4class_v1"],
      version: ["The model's version", "1.0.0"],
    }),
    ...parameters("query", {
      key: "Part of a signed address: the identifier of a key, which is not the key",
      expires: "Part of a signed address: the Unix second at which it expires",
      signer: "Part of a signed address: the identifier of the signing secret",
      signature: "Part of a signed address: its signature",
    }),
    ...parameters("header", {
      "If-Match": "Tags of which one must be the tag of the file: otherwise nothing is sent",
      "If-None-Match": "Tags that the client has: the file is not sent if its tag is among them",
    }),
  ],
} as const satisfies Partial<EndpointOperation>;
const fileHeaders = ["ETag", "Accept-Ranges"];
const headers = [...fileHeaders, "Content-Disposition"];
const known = { status: 304, description: "`If-None-Match` names the file's tag", headers: fileHeaders };
const content = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };

const get: EndpointOperation = {
  ...file,
  id: "downloadModel",
  summary: "Download a model's file, or a range of it",
  parameters: [
    ...file.parameters,
    ...parameters("header", {
      Range: ["One range of bytes; a request for several ranges gets the whole file", "bytes=0-99"],
      "If-Range": "The tag of the file that the range is for; if it differs, the whole file is sent",
    }),
  ],
  success: { description: "The file", content, headers },
  others: [{ status: 206, description: "The range", content, headers: [...headers, "Content-Range"] }, known],
  codes: [...file.codes, "RANGE_NOT_SATISFIABLE"],
};

const head: EndpointOperation = {
  ...file,
  id: "headModel",
  summary: "Get the size and the tag of a model's file",
  success: { description: "The file exists", headers },
  others: [known],
};

/** By name and version. */
export const DOWNLOAD: Operations = { get, head };

/** The same with the name of the file in the path: `curl -O` and `wget` save the file under it. */
export const DOWNLOAD_BY_FILE_NAME: Operations = { get: withFileName(get), head: withFileName(head) };

function withFileName(operation: EndpointOperation): EndpointOperation {
  return {
    ...operation,
    id: `${operation.id}ByFileName`,
    parameters: [
      ...(operation.parameters ?? []),
      ...parameters("path", { file: ["The name of the file", "motor_imagery_4class_v1.onnx"] }),
    ],
  };
}
