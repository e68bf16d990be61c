/** The operations on a model's file: downloading it, whole or in ranges, and asking for its size. */
import { DOWNLOAD_PATH } from "../download_link.ts";
import type { HeaderName } from "./headers.ts";
import { type Operation, parameter, type Success, WITH_GOOD_KEY } from "./operation.ts";

export function fileOperations(): Operation[] {
  const file = {
    path: `${DOWNLOAD_PATH}{name}/{version}`,
    description:
      "By the address that the list gives, as it stands, or with a key. The bytes under an address never " +
      "change, and the tag is their SHA-256. An answer with the whole file counts against the limit each time, " +
      "also where it was asked for as `bytes=0-`. Once a file was counted, its smaller ranges and its head are " +
      "free for 15 minutes. A refusal counts each time. By default one key may have 128 downloads under way, " +
      "and 16 while three quarters of all places are taken.",
    limit: "downloads",
    isLink: true,
    codes: [...WITH_GOOD_KEY, "INVALID_LINK", "NOT_FOUND", "LICENSE_REQUIRED"],
    parameters: [
      { ...parameter("path", "name", "The model's name", "motor_imagery_4class_v1"), required: true },
      { ...parameter("path", "version", "The model's version", "1.0.0"), required: true },
      parameter("query", "key", "Of a signed address: the identifier of a key, which is not the key"),
      parameter("query", "expires", "Of a signed address: the Unix second at which it expires"),
      parameter("query", "signer", "Of a signed address: what it was signed with"),
      parameter("query", "signature", "Of a signed address: its signature"),
      parameter("header", "If-None-Match", "Tags that are known: then the file is not sent"),
    ],
  } as const satisfies Partial<Operation>;
  const fileHeaders: readonly HeaderName[] = ["ETag", "Accept-Ranges"];
  const known: Success = {
    status: 304,
    description: "`If-None-Match` names its tag",
    headers: fileHeaders,
  };
  const bytes = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };

  const operations: Operation[] = [
    {
      ...file,
      method: "get",
      id: "downloadModel",
      summary: "Download a model's file, or a range of it",
      parameters: [
        ...file.parameters,
        parameter(
          "header",
          "Range",
          "One range of bytes; several are answered with the whole file",
          "bytes=0-99",
        ),
        parameter("header", "If-Range", "The tag that the range is meant for; of another file all is sent"),
      ],
      successes: [
        {
          status: 200,
          description: "The file",
          content: bytes,
          headers: [...fileHeaders, "Content-Disposition"],
        },
        {
          status: 206,
          description: "The range",
          content: bytes,
          headers: [...fileHeaders, "Content-Disposition", "Content-Range"],
        },
        known,
      ],
      codes: [...file.codes, "RANGE_NOT_SATISFIABLE"],
    },
    {
      ...file,
      method: "head",
      id: "headModel",
      summary: "Ask for the size and the tag of a model's file",
      successes: [
        { status: 200, description: "There is one", headers: [...fileHeaders, "Content-Disposition"] },
        known,
      ],
    },
  ];
  // The same under the name of the file, as which `curl -O` and `wget` then keep it.
  const named = operations.map((operation) => ({
    ...operation,
    path: `${operation.path}/{file}`,
    id: `${operation.id}ByFileName`,
    parameters: [
      ...(operation.parameters ?? []),
      {
        ...parameter("path", "file", "The name of the file", "motor_imagery_4class_v1.onnx"),
        required: true,
      },
    ],
  }));
  return [...operations, ...named];
}
