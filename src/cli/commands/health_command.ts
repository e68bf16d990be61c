/** `claviger health`: tells scripts whether a service is healthy; with `--wait` it waits until the service is healthy. */

import { setTimeout as sleep } from "node:timers/promises";
import { InvalidArgumentError } from "commander";
import { DAY_MS, HOUR_MS } from "../../base/calendar.ts";
import { CERTIFICATES_LIMIT_BYTES, readNamedFile } from "../../base/read_regular_file.ts";
import { FILE_REASONS } from "../../base/system_error.ts";
import { askHealth, type HealthAnswer, toHealthUrl } from "../../installation/doctor/mod.ts";
import { command } from "../command.ts";
import { renderFileFailure } from "../failures.ts";
import type { Invocation } from "../invocation.ts";
import { JSON_FLAG, PATH } from "../options.ts";
import { option, required } from "../parameter.ts";
import { CommandRefused } from "../run.ts";

/** A service always answers within 5 s. */
const ANSWER_LIMIT_MS = 6_000;
const PAUSE_MS = 250;

export const health = command({
  name: "health",
  description: "ask a service whether it is healthy: exit status 0 if it is, otherwise 1",
  options: {
    ...JSON_FLAG,
    url: required("the service, such as http://127.0.0.1:8080", urlOption),
    wait: option("ask again until it is healthy, at most this long, such as 30s or 2m", waitOption, {
      as: "time",
      default: 0,
    }),
    ca: option(
      "trust the certificates in this file (PEM; - is standard input) instead of the system's",
      PATH,
      { as: "file" },
    ),
  },
  async run({ json, wait, ...values }, { invocation, print }) {
    const { clock } = invocation;
    const url = toHealthUrl(values.url);
    const ca = values.ca === undefined ? undefined : await readCa(invocation, values.ca);
    const beganMs = clock.monotonicMs();
    const untilMs = beganMs + wait;
    let answer: HealthAnswer;
    for (;;) {
      const leftMs = Math.max(untilMs - clock.monotonicMs(), wait === 0 ? ANSWER_LIMIT_MS : 1_000);
      answer = await askHealth(url, { timeoutMs: Math.min(ANSWER_LIMIT_MS, leftMs), ...(ca && { ca }) });
      if (answer.isHealthy || answer.isCertificate || clock.monotonicMs() + PAUSE_MS > untilMs) break;
      await sleep(PAUSE_MS);
    }
    const waitedMs = Math.round(clock.monotonicMs() - beganMs);
    if (json) {
      print.document({
        url: url.href,
        healthy: answer.isHealthy,
        http_status: answer.httpStatus ?? null,
        database: answer.database ?? null,
        error: answer.error ?? null,
        waited_ms: waitedMs,
      });
    }
    if (!answer.isHealthy) throw new CommandRefused(`Not healthy: ${url.href}: ${answer.error}`);
    print.line(`Healthy: ${url.href}, database ${answer.database}`);
  },
});

async function readCa({ readInput }: Invocation, path: string): Promise<string> {
  try {
    const text =
      path === "-"
        ? await readInput(CERTIFICATES_LIMIT_BYTES)
        : readNamedFile(path, CERTIFICATES_LIMIT_BYTES);
    if (text === undefined) throw new Error(FILE_REASONS.EFBIG);
    if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
    throw new CommandRefused(
      `Cannot use the certificates of --ca ${path}: it has no certificate in PEM form`,
    );
  } catch (error) {
    if (error instanceof CommandRefused) throw error;
    throw new CommandRefused(`Cannot read the certificates of --ca ${path}: ${renderFileFailure(error)}`);
  }
}

function urlOption(text: string): URL {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username + url.password === "") return url;
  throw new InvalidArgumentError("It must be an http or https address, such as http://127.0.0.1:8080.");
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: HOUR_MS };

/** Reads a time such as `30s` as milliseconds; a number alone means seconds. At most a day. */
function waitOption(text: string): number {
  const [, number, unit = "s"] = /^(\d{1,8})(ms|s|m|h)?$/.exec(text) ?? [];
  const ms = Number(number) * (UNITS_MS[unit] ?? Number.NaN);
  if (ms <= DAY_MS) return ms;
  throw new InvalidArgumentError("It must be a time such as 30s, 500ms or 2m, at most a day.");
}
