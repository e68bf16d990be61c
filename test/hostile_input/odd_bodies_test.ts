/** Sends each odd body to every endpoint of clients and every route of operators that takes a body. Also runs on Node. */
import { beforeAll, describe, expect, test } from "bun:test";
import { ROUTES } from "../../src/admin/things.ts";
import { makeSample, nameOf } from "../admin/sample_requests.ts";
import { WITH_BODY } from "../support/endpoints.ts";
import { setToken } from "../support/installer.ts";
import { countRows } from "../support/issue.ts";
import { useAdmin, useTestService } from "../support/use.ts";
import {
  BODY_LIMIT_BYTES,
  bodyOfBytes,
  CONTENT_TYPES,
  ENCODINGS,
  MORE_FIELDS,
  NO_OBJECTS,
  ODD_KEYS,
  type Right,
} from "./odd_bodies.ts";
import { toFields, toObject } from "./requests.ts";

const service = useTestService();
const admin = useAdmin();
beforeAll(async () => {
  await setToken(service);
});

/** A request that succeeds with the right body, which is not in it yet. */
interface Prepared extends RequestInit {
  readonly url: string;
  readonly right: Right;
}

interface Door {
  readonly title: string;
  readonly isForClients: boolean;
  readonly limitBytes: number;
  prepare(): Promise<Prepared>;
}

const OF_CLIENTS = WITH_BODY.map(
  ({ title, path, fields, bodyLimitBytes }): Door => ({
    title,
    limitBytes: bodyLimitBytes,
    isForClients: true,
    async prepare() {
      const { apiKey } = await service.issue();
      const right = { key: apiKey, fields: fieldsOf({ api_key: apiKey, ...fields }) };
      return { url: service.url + path, method: "POST", right };
    },
  }),
);

const OF_OPERATORS = ROUTES.filter(({ method, operation }) => method !== "GET" && !operation.file).map(
  (route): Door => ({
    title: `${nameOf(route)} of operators`,
    isForClients: false,
    limitBytes: BODY_LIMIT_BYTES,
    async prepare() {
      const { path, body = {}, headers } = await makeSample(admin, route);
      return {
        url: `${admin.url}/admin/v1${path}`,
        method: route.method,
        // A new token each time, because a token may send a limited number of requests a minute.
        headers: { authorization: `Bearer ${await admin.token()}`, ...headers },
        right: { key: "", fields: fieldsOf(body) },
      };
    },
  }),
);

function fieldsOf(body: object): string {
  return toFields(Object.entries(body).map(([name, value]) => [name, JSON.stringify(value)] as const));
}

const FORMS = ["a declared length", "chunks"] as const;

const isJson = (headers: Headers) => headers.get("content-type")?.startsWith("application/json") === true;

async function send(
  { url, right: _, ...init }: Prepared,
  text: string,
  { form = "a declared length", headers = {} }: { form?: (typeof FORMS)[number]; headers?: object } = {},
) {
  const bytes = Buffer.from(text, "latin1");
  const body = form === "chunks" ? toChunks(bytes) : bytes;
  const answer = await fetch(url, { ...init, headers: { ...init.headers, ...headers }, body });
  const answered = await answer.text();
  // A success may be a file.
  const json = answer.ok && !isJson(answer.headers) ? {} : JSON.parse(answered || "{}");
  const code = answer.ok ? "accepted" : `${answer.status} ${json.code}`;
  return { code, field: json.details?.[0].field, headers: answer.headers };
}

/** Returns a stream, whose length `fetch` does not know. */
function toChunks(bytes: Uint8Array): ReadableStream {
  return new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 10_000) controller.enqueue(bytes.subarray(at, at + 10_000));
      controller.close();
    },
  });
}

const rightBody = ({ right }: Prepared) => toObject(right.fields);

describe.each([...OF_CLIENTS, ...OF_OPERATORS])("$title", ({ isForClients, limitBytes, prepare }) => {
  for (const form of FORMS) {
    test(`refuses each body that is no JSON object, with ${form}, and changes nothing`, async () => {
      const request = await prepare();
      const { database } = isForClients ? service : admin;
      const before = await countRows(database);
      for (const [name, toBytes] of Object.entries(NO_OBJECTS)) {
        const { code } = await send(request, toBytes(request.right), { form });
        expect([name, code]).toEqual([name, "400 INVALID_REQUEST"]);
      }
      expect(await countRows(database)).toEqual(before);
      // The request is still right.
      expect((await send(request, rightBody(request), { form })).code).toBe("accepted");
    });

    const what = isForClients ? "ignores each field that it does not know" : "names each unknown field";
    test(`${what}, with ${form}`, async () => {
      let request = await prepare();
      for (const [name, [field, json]] of Object.entries(MORE_FIELDS)) {
        if (isForClients) request = await prepare();
        const answer = await send(request, `{${request.right.fields}"${field}":${json}}`, { form });
        const expected = isForClients ? { code: "accepted" } : { code: "400 INVALID_REQUEST", field };
        expect({ name, ...answer }).toMatchObject({ name, ...expected });
      }
      expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
    });

    test(`takes ${limitBytes / 1024} KiB and not a byte more, with ${form}`, async () => {
      const request = await prepare();
      const codeOf = async (bytes: number) => (await send(request, bodyOfBytes(bytes), { form })).code;
      expect(await codeOf(limitBytes)).toBe(isForClients ? "400 MISSING_KEY" : "400 INVALID_REQUEST");
      expect(await codeOf(limitBytes + 1)).toBe("413 PAYLOAD_TOO_LARGE");
      expect(await codeOf(3 * limitBytes)).toBe("413 PAYLOAD_TOO_LARGE");
    });
  }

  test("takes no encoded body, and any content type", async () => {
    for (const [encoding, expected] of Object.entries(ENCODINGS)) {
      const request = await prepare();
      const { code, headers } = await send(request, rightBody(request), {
        headers: { "content-encoding": encoding },
      });
      expect([encoding, code]).toEqual([encoding, expected]);
      if (isForClients) expect(headers.get("accept-encoding")).toBe(code === "accepted" ? null : "identity");
    }
    for (const type of CONTENT_TYPES) {
      const request = await prepare();
      const { code } = await send(request, rightBody(request), { headers: { "content-type": type } });
      expect([type, code]).toEqual([type, "accepted"]);
    }
  });
});

describe.each(OF_CLIENTS)("$title", ({ prepare }) => {
  test.each(FORMS)("finds the key in the last field api_key, with %s", async (form) => {
    for (const [name, [toBytes, expected]] of Object.entries(ODD_KEYS)) {
      const request = await prepare();
      const { code } = await send(request, toBytes(request.right), { form });
      expect([name, code]).toEqual([name, expected]);
    }
  });
});
