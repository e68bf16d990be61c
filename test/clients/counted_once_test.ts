/** A request is counted and logged once, whatever fails while it is answered. */
import { describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { nodePlatform } from "../../src/base/platform/node/mod.ts";
import { expectRefusal } from "../support/answers.ts";
import { parseExposition } from "../support/exposition.ts";
import { addHostedModel, linkTo, startHostingService, testBytes } from "../support/hosted.ts";
import { ON_NODE, startTestService, type TestService } from "../support/service.ts";
import { useUndo } from "../support/use_undo.ts";

const METRICS = { metricsListen: { host: "127.0.0.1", port: 0 } };
const undo = useUndo();

/** Returns from the metrics how often an endpoint has answered so far, by status. */
async function countsAt(service: TestService, endpoint: string): Promise<Record<string, number>> {
  const response = await fetch(`http://127.0.0.1:${service.service.metrics?.port}/metrics`);
  const samples = parseExposition(await response.text()).get("claviger_http_requests_total")?.samples ?? [];
  const ofEndpoint = [...samples].filter(([key, count]) => key.includes(`"${endpoint}"`) && count > 0);
  return Object.fromEntries(ofEndpoint.map(([key, count]) => [/status="(\d+)"/.exec(key)?.[1], count]));
}

// On Node the service is a process of its own, into which the tests cannot inject faults.
describe.skipIf(ON_NODE)("A request is counted and logged once", () => {
  test("if its file disappears between the check and the opening: it answers SERVER_ERROR", async () => {
    const service = await startHostingService({
      config: METRICS,
      platform: {
        fileBody(part) {
          rmSync(part.path);
          return nodePlatform.fileBody(part);
        },
      },
    });
    undo.push(() => service.close());
    await addHostedModel(service, { name: "m" }, testBytes(1_000));
    const link = await linkTo(service, (await service.issue()).apiKey, "m");
    service.logLines.splice(0);

    const answer = await service.get(link.slice(service.url.length));

    expectRefusal(answer, 500, "SERVER_ERROR");
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(await countsAt(service, "downloads")).toEqual({ 500: 1 });
    const lines = service.logLines.map((line) => JSON.parse(line));
    expect(lines.map(({ message }) => message)).toEqual(["A request failed", "request"]);
    expect(lines[1]).toMatchObject({ status: 500, request: answer.headers.get("x-request-id") });
  });

  test("if its line cannot be written: it answers SERVER_ERROR in JSON", async () => {
    const lines: string[] = [];
    let failures = 0;
    const service = await startTestService({
      config: METRICS,
      writeLog(line) {
        if (failures-- > 0) throw new Error("No space left on device");
        lines.push(line);
      },
    });
    undo.push(() => service.close());
    const { apiKey } = await service.issue();
    const validate = () => service.post("/v1/auth/validate", { api_key: apiKey });
    // From its second use on the key is in the cache, and the request waits for nothing.
    await validate();
    lines.splice(0);
    failures = 1;

    const answer = await validate();

    expectRefusal(answer, 500, "SERVER_ERROR");
    expect(answer.headers.get("content-type")).toBe("application/json");
    expect(await countsAt(service, "validate")).toEqual({ 200: 2 });
    expect(lines).toEqual([]);
  });
});
