/** @jsxImportSource hono/jsx */
import { HOUR_MS } from "../../base/calendar.ts";
import { isRefusal, type Refusal } from "../../base/refusal.ts";
import { COMMIT, VERSION } from "../../base/version.ts";
import { listProcesses, type ServingProcess } from "../../database/processes/mod.ts";
import { type Finding, measureDatabase } from "../../installation/doctor/mod.ts";
import { listTokens } from "../../operators/mod.ts";
import { completeQuery, findEndpointHours, findHours, goBack } from "../../usage/activity/mod.ts";
import { findProcessLatency, type Measured } from "../../usage/latency/mod.ts";
import { FAILURE_CODES } from "../../wire/mod.ts";
import { type Column, Facts, Table } from "../frame/console/components/table.tsx";
import { Ago, Day, Foreign, Lines, Pill, type PillProps, Size } from "../frame/console/components/values.tsx";
import { readConditions } from "../frame/console/conditions.ts";
import { distanceOf } from "../frame/console/distance.ts";
import type { Page } from "../frame/console/page.tsx";
import type { Visit } from "../frame/console/visit.ts";
import { ENDPOINT, Endpoints, HOURS_BEFORE } from "./endpoints.tsx";
import { type Expiry, listExpiries, summarize } from "./health_rows.ts";
import { inMs } from "./in_ms.ts";
import { ShowSlow } from "./show_slow.tsx";
import { findingsOf, findSlow } from "./slow.ts";

const NO_CERTIFICATE = "The service has no certificate of its own";

const CONDITIONS = { endpoint: ENDPOINT };

/** The page Health: what works, what will soon fail, and what is wrong. Only admins see the names of tokens. */
export async function healthPage({ options, session, query, now }: Visit): Promise<Page | Refusal> {
  const { values } = readConditions(query, CONDITIONS);
  if (isRefusal(values)) return values;
  const { database, processUuid: ownUuid } = options;
  const isAdmin = session.role === "admin";
  const examination = options.examination();
  const day = completeQuery({}, now);
  const [findings, processes, tokens, facts, { unusual, firstHour }, found, latency, slow] =
    await Promise.all([
      examination.findings,
      listProcesses(database),
      isAdmin ? listTokens(database, { now }) : [],
      measureDatabase(database),
      findHours(database, day, now),
      findEndpointHours(database, { ...day, from: goBack(day.from, "hour", HOURS_BEFORE) }, FAILURE_CODES),
      findProcessLatency(database, new Date(now.getTime() - HOUR_MS)),
      findSlow(database, now),
    ]);
  const expiries = listExpiries(options.certificateExpiresAt(), tokens, now);
  const summary = summarize({ findings, expiries, processes, unusual, slow, now });
  return {
    title: "Health",
    script: "refresh",
    body: (
      <>
        <p class={`notice ${summary.tone}`}>
          <Foreign text={summary.sentence} />{" "}
          {unusual.length > 0 && <a href="/console/activity#rows">Show unusual hours</a>}{" "}
          <ShowSlow slow={slow} />
        </p>
        <h2 id="requests">Requests of the last day</h2>
        <Endpoints found={found} firstHour={firstHour} endpoint={values.endpoint} now={now} />
        <h2>Checks</h2>
        <Table
          caption={`Checked: ${distanceOf(examination.at, now)}`}
          columns={CHECKS}
          rows={[...findings, ...findingsOf(slow)]}
        />
        <h2>Expiry</h2>
        <Table
          caption="The certificate, then tokens"
          columns={expiryColumns(now)}
          rows={expiries}
          none={<p class="muted">{NO_CERTIFICATE + (isAdmin ? ", and no token expires." : ".")}</p>}
        />
        <h2>Processes</h2>
        <Table
          caption="Each process reports once a minute; it is lost after five minutes without a report"
          columns={processColumns({ ownUuid, latency, now })}
          rows={processes}
          none={<p class="muted">No process has reported yet: each process reports once a minute.</p>}
        />
        <h2>Versions and database</h2>
        <Facts
          facts={[
            ["Claviger", `${VERSION} (${COMMIT})`],
            ["PostgreSQL", facts.version],
            ["PostgreSQL runs since", <Ago at={facts.startedAt} now={now} />],
            ["Size of the database", <Size bytes={facts.sizeBytes} />],
            ["Connections", `${facts.connections} of ${facts.maxConnections}`],
          ]}
        />
      </>
    ),
  };
}

interface Shown {
  readonly word: string;
  readonly tone: PillProps["tone"];
}

const STATES: Readonly<Record<Finding["state"], Shown>> = {
  ok: { word: "ok", tone: "good" },
  warn: { word: "warning", tone: "warning" },
  fail: { word: "wrong", tone: "bad" },
  skip: { word: "not known", tone: "expired" },
};

const VALIDITY: Readonly<Record<Expiry["state"], Shown>> = {
  good: { word: "valid", tone: "good" },
  soon: { word: "expires soon", tone: "warning" },
  expired: { word: "expired", tone: "bad" },
};

const CHECKS: readonly Column<Finding>[] = [
  { label: "Check", cell: ({ name }) => name },
  { label: "State", cell: ({ state }) => <Pill tone={STATES[state].tone}>{STATES[state].word}</Pill> },
  { label: "Result", cell: ({ message }) => <Foreign text={message} /> },
  { label: "What to do", cell: ({ remedy }) => (remedy ? <Remedy text={remedy} /> : NOTHING) },
];

const NOTHING = <span class="muted">nothing</span>;

const expiryColumns = (now: Date): readonly Column<Expiry>[] => [
  { label: "What", cell: ({ what }) => <Foreign text={what} /> },
  { label: "State", cell: ({ state }) => <Pill tone={VALIDITY[state].tone}>{VALIDITY[state].word}</Pill> },
  { label: "Expires", cell: ({ expiresAt }) => <Day at={expiresAt} now={now} /> },
  {
    label: "What to do",
    cell: ({ state, remedy }) => (state === "good" ? NOTHING : <Remedy text={remedy} />),
  },
];

interface ProcessFacts {
  /** The process that shows the page. */
  readonly ownUuid: string;
  /** Of the last hour, by the UUID of the process. */
  readonly latency: ReadonlyMap<string, Measured>;
  readonly now: Date;
}

const processColumns = ({ ownUuid, latency, now }: ProcessFacts): readonly Column<ServingProcess>[] => [
  {
    label: "Address",
    cell: ({ uuid, address }) => (
      <Lines text={<Foreign text={address} />} more={uuid === ownUuid && "shows you this page"} />
    ),
  },
  { label: "Host", cell: ({ host }) => <Foreign text={host} /> },
  {
    label: "State",
    cell: ({ isLost }) => <Pill tone={isLost ? "warning" : "good"}>{isLost ? "lost" : "serving"}</Pill>,
  },
  { label: "Version", cell: ({ version }) => version },
  { label: "Started", cell: ({ startedAt }) => <Ago at={startedAt} now={now} /> },
  {
    label: "Answers of the last hour",
    cell({ uuid }) {
      const { p50Ms = null, p95Ms = null } = latency.get(uuid) ?? {};
      if (p50Ms === null || p95Ms === null) return <span class="muted">none counted</span>;
      return <Lines text={`half within ${inMs(p50Ms)}`} more={`95 % within ${inMs(p95Ms)}`} />;
    },
  },
  {
    label: "Last seen",
    cell: ({ seenSecondsAgo }) => distanceOf(new Date(now.getTime() - seenSecondsAgo * 1_000), now),
  },
];

/** A remedy, whose commands stand between backticks. */
function Remedy({ text }: { readonly text: string }) {
  const parts = text.split("`");
  return (
    <span>
      {parts.map((part, index) => (index % 2 === 1 ? <code>{part}</code> : <Foreign text={part} />))}
    </span>
  );
}
