/**
 * Notices about the installation: its backup, its certificate, the installer token and the files of models. The rooms above
 * know its state by their own rules, and hand it over. Each process sees its own host by its own settings. So what one of them
 * finds stays open while it finds it, whatever the others find.
 */
import { DAY_MS, toTimestamp } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { inBatches, isNew, makeCtes, type NoticeContext } from "./_make.ts";
import { withdraw } from "./_withdraw.ts";
import type { NoticeKind } from "./kinds.ts";
import type { NoticeSettings } from "./settings.ts";

/** What the rooms above know of the installation. */
export interface InstallationState {
  /** The name of this host: each has its own certificate, and perhaps its own files. */
  readonly host: string;
  /** Undefined if this process has no certificate. */
  readonly certificateEndsAt: Date | undefined;
  readonly backup: {
    /** The time of the last one, otherwise that of the first start or of the restore. */
    readonly since: Date;
    readonly dueAt: Date;
    readonly isOverdue: boolean;
  };
  /** What is wrong with the files of models, in words; null if nothing is; undefined if it cannot be told now. */
  readonly wrongModelFiles: string | null | undefined;
  /** Where these files are: a bucket that all hosts share, or a folder of this host. */
  readonly modelsPlace: string;
}

interface Found {
  readonly kind: NoticeKind;
  readonly subject: string;
  /** Null if nothing is wrong. */
  readonly occasion: string | null;
  /** The notice of it; undefined if there is nothing to notice now. */
  readonly notice?: {
    readonly stage: number;
    readonly trueSince: Date;
    readonly facts: Readonly<Record<string, string | number>>;
  };
  /** Whether another occasion proves at once that the notice `n` is not true any more: all processes see the same. */
  readonly isOver: (sql: Sql) => Fragment;
}

/** The longest text of the database for a subject or an occasion. */
const MOST_LENGTH = 300;
/** What another process of the host may still find is withdrawn when none has found it for so long: two looks and a half. */
const FOUND_AGAIN_MS = 25 * 60_000;
/** What only a process of another host can find. */
const HOST_OFF_MS = DAY_MS;

/** Makes the notices about the installation, and withdraws those that are not true any more. */
export async function noticeInstallation(
  context: NoticeContext,
  settings: NoticeSettings,
  state: InstallationState,
): Promise<void> {
  const now = context.clock.now();
  const [token] = await context.database.query<{ expiresAt: Date | null }>(
    (sql) => sql`select expires_at as "expiresAt" from installer_token`,
  );
  const found = [
    // Another process of this host may have one.
    ...(state.certificateEndsAt === undefined
      ? []
      : [endingAt("certificate_end", `certificate of ${state.host}`, state.certificateEndsAt)]),
    { ...endingAt("installer_token_end", "installer token", token?.expiresAt ?? null), isOver: always },
    overdue(state.backup),
    ...(state.wrongModelFiles === undefined ? [] : [wrongFiles(state.modelsPlace, state.wrongModelFiles)]),
  ];
  for (const one of found) await noticeOne(context, one);
  for (const kind of ["certificate_end", "backup_overdue", "model_files"] as const)
    await withdraw(context, {
      kind,
      why: (sql, now) => sql`case when ${isUnseen(sql, now, HOST_OFF_MS)} then 'unseen' end`,
    });

  function endingAt(kind: NoticeKind, subject: string, end: Date | null): Found {
    const stages = [0, ...settings.days.toReversed()];
    const days = stages.find((days) => end !== null && end.getTime() - days * DAY_MS <= now.getTime());
    const occasion = end && toTimestamp(end);
    if (end === null || days === undefined) return { kind, subject, occasion, isOver: never };
    const trueSince = new Date(end.getTime() - days * DAY_MS);
    const facts = {
      ends_at: toTimestamp(end),
      days,
      ...(kind === "certificate_end" && { host: state.host }),
    };
    return { kind, subject, occasion, notice: { stage: -days, trueSince, facts }, isOver: never };
  }

  function overdue({ since, dueAt, isOverdue }: InstallationState["backup"]): Found {
    const occasion = toTimestamp(since);
    const of = {
      kind: "backup_overdue",
      subject: "backup",
      occasion,
      isOver: (sql: Sql) => sql`n.occasion < ${occasion}::text`,
    } as const;
    if (!isOverdue) return of;
    // A time ahead was written by a wrong clock, so nobody knows since when it is true.
    const trueSince = dueAt <= now ? dueAt : now;
    const facts = { last_at: occasion, due_at: toTimestamp(dueAt) };
    return { ...of, notice: { stage: 0, trueSince, facts } };
  }

  function wrongFiles(place: string, wrong: string | null): Found {
    const of = { kind: "model_files", subject: place.slice(0, MOST_LENGTH), isOver: never } as const;
    if (wrong === null) return { ...of, occasion: null };
    const notice = { stage: 0, trueSince: now, facts: { wrong, place } };
    return { ...of, occasion: wrong.slice(0, MOST_LENGTH), notice };
  }
}

const always = (sql: Sql) => sql`true`;
const never = (sql: Sql) => sql`false`;

/** Returns the condition, as SQL, that no process has found the notice `n` for so long. */
function isUnseen(sql: Sql, now: Date, ms: number): Fragment {
  return sql`coalesce(n.seen_at, n.made_at) < ${new Date(now.getTime() - ms)}::timestamptz`;
}

/** Makes the notice of a subject, if there is one, notes that it was found, and withdraws the open ones of other occasions. */
async function noticeOne(
  context: NoticeContext,
  { kind, subject, occasion, notice, isOver }: Found,
): Promise<void> {
  if (notice !== undefined)
    await inBatches(
      context,
      {},
      (sql, _, now) => sql`
        with staged as materialized (
          select ${subject}::text as subject, ${occasion}::text as occasion, ${notice.stage}::integer as stage, null::uuid as license_id,
                 null::uuid as key_id, ${notice.trueSince}::timestamptz as true_since, ${JSON.stringify(notice.facts)}::text::jsonb as facts
        ),
        found as (select * from staged where ${isNew(sql, kind, sql`staged`)}),
        ${makeCtes(sql, { kind, now })},
        seen as (
          update notices n set seen_at = ${now}::timestamptz
           where n.kind = ${kind}::text and n.subject = ${subject}::text and n.occasion = ${occasion}::text and n.state = 'open'
             and not exists (select from made where made.id = n.id)
             and not exists (select from replaced where replaced.id = n.id)
        )
        select null::uuid as uuid where false`,
    );
  await withdraw(context, {
    kind,
    why: (sql, now) => sql`
      case when n.subject = ${subject}::text and n.occasion is distinct from ${occasion}::text
                and (${isOver(sql)} or ${isUnseen(sql, now, FOUND_AGAIN_MS)}) then 'mended' end`,
  });
}
