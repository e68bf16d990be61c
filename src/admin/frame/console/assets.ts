/** The style and the scripts of the pages. Their names contain a digest, so browsers keep them until they change. */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { Context } from "hono";
import { refuse } from "../../../base/refusal.ts";
import { answerRefusal } from "../answer.ts";
import type { AdminEnv } from "../options.ts";
import action from "./browser/action.client.js" with { type: "text" };
import chart from "./browser/chart.client.js" with { type: "text" };
import copy from "./browser/copy.client.js" with { type: "text" };
import enter from "./browser/enter.client.js" with { type: "text" };
import find from "./browser/find.client.js" with { type: "text" };
import issued from "./browser/issued.client.js" with { type: "text" };
import keep from "./browser/keep.client.js" with { type: "text" };
import many from "./browser/many.client.js" with { type: "text" };
import refresh from "./browser/refresh.client.js" with { type: "text" };
import report from "./browser/report.client.js" with { type: "text" };
import select from "./browser/select.client.js" with { type: "text" };
import submitOnce from "./browser/submit_once.client.js" with { type: "text" };
import upload from "./browser/upload.client.js" with { type: "text" };
import actions from "./style/actions.css" with { type: "text" };
import activity from "./style/activity.css" with { type: "text" };
import audit from "./style/audit.css" with { type: "text" };
import base from "./style/base.css" with { type: "text" };
import charts from "./style/charts.css" with { type: "text" };
import controls from "./style/controls.css" with { type: "text" };
import frame from "./style/frame.css" with { type: "text" };
import manyStyle from "./style/many.css" with { type: "text" };
import names from "./style/names.css" with { type: "text" };
import panels from "./style/panels.css" with { type: "text" };
import print from "./style/print.css" with { type: "text" };
import tables from "./style/tables.css" with { type: "text" };

/** The scripts that a page can name. */
const SCRIPTS = {
  action,
  chart,
  copy,
  enter,
  /** What every page has while somebody is logged in: one file, because each costs a request. */
  frame: find + keep,
  issued,
  many,
  refresh,
  report,
  select,
  submit_once: submitOnce,
  upload,
};
export type Script = keyof typeof SCRIPTS;

const NOT_FOUND = refuse("NOT_FOUND", "There is no such file");

interface Asset {
  readonly text: string;
  readonly zipped: Uint8Array<ArrayBuffer>;
  readonly type: string;
}

const files = new Map<string, Asset>();
const STYLES = [
  base,
  frame,
  controls,
  actions,
  tables,
  names,
  charts,
  activity,
  audit,
  panels,
  manyStyle,
  print,
];
export const stylePath = add("style.css", STYLES.map(withoutComments).join(""), "text/css");
const SCRIPT_PATHS = Object.fromEntries(
  Object.entries(SCRIPTS).map(([name, text]) => [name, add(`${name}.js`, text, "text/javascript")]),
);

/** Returns the path of a script. */
export function scriptPath(script: Script): string {
  return SCRIPT_PATHS[script] ?? "";
}

/** Answers with a file, compressed if the browser takes that. Pages are not: they can have secrets. */
export function serveAsset(c: Context<AdminEnv>): Response {
  const file = files.get(c.req.param("name") ?? "");
  if (file === undefined) return answerRefusal(c, NOT_FOUND);
  const isZipped = /\bgzip\b/.test(c.req.header("accept-encoding") ?? "");
  return c.body(isZipped ? file.zipped : file.text, 200, {
    "Content-Type": `${file.type}; charset=utf-8`,
    "Cache-Control": "public, max-age=31536000, immutable",
    Vary: "Accept-Encoding",
    ...(isZipped && { "Content-Encoding": "gzip" }),
  });
}

/** Returns a style without comments, and without the spaces and ends of lines that only its readers need. */
function withoutComments(style: string): string {
  return style
    .replaceAll(/\/\*.*?\*\//gs, "")
    .replaceAll(/^(\s*[\w-]+): /gm, "$1:")
    .replaceAll(/ ?([{}:;,(])\n\s*/g, "$1")
    .replaceAll(/\s*\n\s*/g, "\n");
}

function add(name: string, text: string, type: string): string {
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 8);
  const named = name.replace(".", `-${digest}.`);
  files.set(named, { text, zipped: new Uint8Array(gzipSync(text)), type });
  return `/console/assets/${named}`;
}
