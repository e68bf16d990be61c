/** The dashboard and the alert rules of the guide name the metrics that a service exports, and no others. */
import { beforeAll, describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { YAML } from "bun";
import { makeCertificate, type TestCertificate } from "../support/certificates.ts";
import { createTestClock } from "../support/clock.ts";
import { parseExposition } from "../support/exposition.ts";
import { startGitHubStandIn } from "../support/github_stand_in.ts";
import { startTestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { useFolder } from "../support/use_folder.ts";
import { useCommandLine } from "./use_command_line.ts";

const line = useCommandLine();
const folder = useFolder();
/** Every metric of a service with operators, a data folder, a certificate, a GitHub App, a bucket and shared windows. */
let exported: Set<string>;
let certificateEnds: number | undefined;
let keys: number[];
let tls: TestCertificate;

beforeAll(async () => {
  const clock = createTestClock();
  const host = await startGitHubStandIn({ clock, folder });
  const anyPort = { host: "127.0.0.1", port: 0 };
  const credentialsFile = join(folder, "credentials");
  writeFileSync(credentialsFile, "aws_access_key_id=a\naws_secret_access_key=b\n");
  const modelsBucket = { url: "http://127.0.0.1:9/b", region: "r", credentialsFile, caFile: undefined };
  tls = makeCertificate(folder, "monitored");
  const service = await startTestService({
    clock,
    limits: "default",
    config: {
      gitHubApp: host.settings,
      modelsBucket,
      dataDir: folder,
      metricsListen: anyPort,
      adminListen: anyPort,
      rateLimits: "shared",
      tls,
    },
  });
  try {
    // The first request has the figures computed.
    await until(async () => {
      const response = await fetch(`http://127.0.0.1:${service.service.metrics?.port}/metrics`);
      const families = parseExposition(await response.text());
      exported = new Set(families.keys());
      [certificateEnds] = [
        ...(families.get("claviger_tls_not_after_timestamp_seconds")?.samples.values() ?? []),
      ];
      keys = [...(families.get("claviger_keys")?.samples.values() ?? [])];
      return exported.has("claviger_keys");
    });
  } finally {
    await service.close();
    await host.close();
  }
});

test("the metrics have the end of the certificate", () => {
  expect(certificateEnds).toBe(Date.parse(new X509Certificate(tls.certificate).validTo) / 1_000);
});

/** Returns the metrics that an expression names; a part of a histogram counts as the histogram. */
function metricsOf(expression: string): string[] {
  const names = expression.match(/\b(?:claviger|process)_[a-z_]+|^up\b/g) ?? [];
  return names.map((name) => (exported.has(name) ? name : name.replace(/_(bucket|sum|count)$/, "")));
}

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
}

describe("claviger guide monitoring --grafana", () => {
  test("prints a dashboard with exactly the metrics of a service", async () => {
    const { panels } = await dashboard();
    const named = panels.flatMap(({ targets = [] }) => targets.flatMap(({ expr }) => metricsOf(expr)));
    expect([...new Set(named)].sort()).toEqual([...exported].sort());
  });

  test("gives each panel a place of its own, and each line its letter", async () => {
    const { panels } = await dashboard();
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)} ${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
    for (const { type, targets = [] } of panels) {
      const letters = targets.map(({ refId }) => refId).join("");
      expect("ABCDE").toStartWith(letters);
      expect(letters === "").toBe(type === "row");
    }
  });

  async function dashboard(): Promise<{ readonly panels: readonly Panel[] }> {
    const { status, out } = await line.run(["guide", "monitoring", "--grafana"]);
    expect(status).toBe(0);
    return JSON.parse(out);
  }
});

describe("claviger guide monitoring --alerts", () => {
  test("has a rule for an installation whose keys are gone, whose metric says 0 and does not go away", async () => {
    const { out } = await line.run(["guide", "monitoring", "--alerts"]);
    expect(out.replaceAll(/\s+/g, " ")).toContain(
      "sum by (instance) (claviger_keys) == 0 and max_over_time((sum by (instance) (claviger_keys))[7d:10m]) > 0",
    );
    expect(keys.length).toBeGreaterThan(10);
    expect(new Set(keys)).toEqual(new Set([0]));
  });

  test("prints rules that name only metrics of a service, and say what to do", async () => {
    const { out } = await line.run(["guide", "monitoring", "--alerts"]);
    const { groups } = YAML.parse(out) as {
      groups: { rules: Record<"alert" | "expr" | "labels" | "annotations", unknown>[] }[];
    };
    const rules = groups.flatMap((group) => group.rules);
    expect(rules.length).toBeGreaterThan(5);
    // `absent()` alone does not see one dead replica of several.
    expect(rules).toContainEqual(expect.objectContaining({ expr: 'up{job="claviger"} == 0' }));
    for (const { alert, expr, labels, annotations } of rules) {
      const named = metricsOf(expr as string);
      // Prometheus itself adds `up`.
      const unknown = named.filter((name) => name !== "up" && !exported.has(name));
      expect([alert, named.length > 0, unknown]).toEqual([alert, true, []]);
      expect(labels).toEqual({ severity: expect.stringMatching(/^(critical|warning)$/) });
      expect(annotations).toMatchObject({ summary: expect.stringMatching(/\S/) });
    }
  });
});

test("other pages have no such files", async () => {
  for (const args of [["--grafana"], ["keys", "--alerts"]]) {
    const { status, err } = await line.run(["guide", ...args]);
    expect(status).toBe(2);
    expect(err).toContain("options of `claviger guide monitoring`");
  }
  expect((await line.run(["guide", "monitoring", "--alerts", "--grafana"])).status).toBe(2);
});
