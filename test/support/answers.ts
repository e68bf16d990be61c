/** Checks in one place the form that the contract sets for every refusal. */
import { expect } from "bun:test";
import type { Code } from "../../src/base/refusal.ts";
import type { JsonResponse } from "./service.ts";

/** Expects a refusal with that status and code: the body is `{error, code}` and contains no key. */
export function expectRefusal({ status, body }: JsonResponse, expectedStatus: number, code: Code): void {
  expect({ status, code: body.code }).toEqual({ status: expectedStatus, code });
  expect(body.error).toMatch(/\S/);
  const more = { NOT_CONFIGURED: ["message"], MACHINE_LIMIT_REACHED: ["machines"] };
  const fields = ["error", "code", ...(more[code as keyof typeof more] ?? [])];
  expect(Object.keys(body)).toEqual(fields);
  expect(JSON.stringify(body)).not.toMatch(/_(live|test)_[0-9a-f]{8}/i);
}
