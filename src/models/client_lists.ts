/**
 * The lists of models that clients fetch: a key may fetch 60 of them at once, each with megabytes of metadata. At most two
 * of their statements run at once, and the pool's other connections stay free for other requests. Equal lists that wait
 * share the next statement. It begins after their requests have arrived, so it shows every change that was made before
 * them. The metadata of a version is read and rendered once, and then kept.
 */
import { LRUCache } from "lru-cache";
import { renderFields } from "../base/answer_fields.ts";
import type { Clock } from "../base/clock.ts";
import { type Database, DatabaseUnavailable } from "../database/mod.ts";
import {
  isForLicense,
  type ListedFile,
  type ListedRow,
  type LoadingLicense,
  selectListed,
} from "./list_models.ts";
import { MODEL_FIELDS } from "./model_fields.ts";

interface ModelQuery extends LoadingLicense {
  /** Later versions are not listed; infinite for a license that has all updates. */
  readonly updatesUntilMs: number;
  readonly paradigm?: string | undefined;
  readonly type?: string | undefined;
}

const STATEMENTS_AT_ONCE = 2;
const MAX_WAITING = 1_000;
/** Short, because a look-up of the key and a statement need up to four of the five seconds that a request has. */
const MAX_WAIT_MS = 500;
const MAX_KEPT_BYTES = 16 * 1024 * 1024;

/** The record of the contract, without the metadata, which is kept as JSON. */
const { owner: _owner, metadata: _metadata, ...FOR_CLIENTS } = MODEL_FIELDS;

/** A row with its metadata as JSON. */
type Listed = Omit<ListedRow, "metadata"> & { readonly json: string };

interface Waiting extends PromiseWithResolvers<readonly Listed[]> {
  readonly query: ModelQuery;
  readonly sinceMs: number;
}

/** Creates the lists of one process. */
export function createClientLists(database: Database, clock: Clock) {
  const kept = new LRUCache<string, Pick<Listed, "owner" | "json">>({
    maxSize: MAX_KEPT_BYTES,
    // A character takes up to two bytes, and an entry some hundred more.
    sizeCalculation: ({ json }) => 2 * json.length + 500,
  });
  const waiting = new Map<string, Waiting>();
  let running = 0;
  let turn: Promise<unknown> = Promise.resolve();

  function read(query: ModelQuery): Promise<readonly Listed[]> {
    const name = JSON.stringify([
      query.tier,
      query.accountUuid,
      query.updatesUntilMs,
      query.hasCustomModels,
      query.paradigm,
      query.type,
    ]);
    let list = waiting.get(name);
    if (list === undefined) {
      if (waiting.size >= MAX_WAITING) throw new DatabaseUnavailable("too many lists of models");
      list = { ...Promise.withResolvers(), query, sinceMs: clock.monotonicMs() };
      waiting.set(name, list);
      start();
    }
    return list.promise;
  }

  function start() {
    for (const [name, { query, sinceMs, resolve, reject }] of waiting) {
      if (running >= STATEMENTS_AT_ONCE) return;
      waiting.delete(name);
      if (clock.monotonicMs() - sinceMs > MAX_WAIT_MS) {
        reject(new DatabaseUnavailable("too many lists of models"));
        continue;
      }
      running++;
      void select(query)
        .then(resolve, reject)
        .finally(() => {
          running--;
          start();
        });
    }
  }

  async function select(query: ModelQuery): Promise<Listed[]> {
    const { accountUuid, updatesUntilMs, paradigm = null, type = null } = query;
    const known = new Map(
      [...kept.entries()].filter(([, { owner }]) => owner === null || owner === accountUuid),
    );
    const rows = await selectListed(database, {
      chosen: (sql) => sql`
        where ${isForLicense(sql, query)}
        and (${paradigm}::text is null or v.paradigm = ${paradigm}::text)
        and (${type}::text is null or v.type = ${type}::text)
        order by m.name collate "C"`,
      known: [...known.keys()],
      until: Number.isFinite(updatesUntilMs) ? new Date(updatesUntilMs) : undefined,
    });
    return rows.map(({ metadata, ...row }) => {
      const { owner, rowId } = row;
      const json = known.get(rowId)?.json ?? JSON.stringify(metadata);
      kept.set(rowId, { owner, json });
      return { ...row, json };
    });
  }

  return {
    /**
     * Lists the models that a key of that tier and account may download: public models and the account's own, in byte
     * order of their names, each in its newest version or, if the license has no more updates, in the newest one before.
     * A filter without matches gives an empty list. `linkTo` returns the address of a hosted file; a
     * file without an address is left out, because no client could download it.
     * Each element is the JSON of a record of the contract, "Model record". Throws {@linkcode DatabaseUnavailable} if too
     * many other lists wait, or if the list has waited for half a second.
     */
    async listFor(query: ModelQuery, linkTo: (file: ListedFile) => string | undefined): Promise<string[]> {
      const rows = await read(query);
      // A large answer takes a millisecond: between two of them other requests come first.
      turn = turn.then(() => new Promise((resolve) => setImmediate(resolve)));
      await turn;
      return rows.flatMap(({ json, ...row }) => {
        const downloadUrl = row.downloadUrl ?? linkTo({ ...row, sha256: row.checksum });
        if (downloadUrl === undefined) return [];
        const fields = renderFields(FOR_CLIENTS, { ...row, downloadUrl, metadata: {} });
        return `${JSON.stringify(fields).slice(0, -1)},"metadata":${json}}`;
      });
    },
  };
}
