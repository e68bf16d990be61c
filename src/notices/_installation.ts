/**
 * Notices about the installation: its backup, its certificate, the repository token and the files of models. The rooms above
 * know its state by their own rules, and hand it over. Each process sees its own host by its own settings. So what one of them
 * finds stays open while it finds it, whatever the others find.
 */
import { DAY_MS, toDay, toTimestamp } from "../base/calendar.ts";
import type { Fragment, Sql } from "../database/mod.ts";
import { isNew } from "./_conditions.ts";
import type { NoticeContext } from "./_in_batches.ts";
import { makeCtes } from "./_make.ts";
import { withdraw, word } from "./_withdraw.ts";
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
  /** What is wrong with the files of models; null if nothing is; undefined if it cannot be told now. */
  readonly wrongModelFiles: WrongFiles | null | undefined;
  /** Where these files are: a bucket that all hosts share, or a folder of this host. */
  readonly modelsPlace: string;
}

interface WrongFiles {
  readonly fault: "missing" | "unreachable";
  /** In words, with numbers that change while the fault stays the same. */
  readonly says: string;
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

/** The longest text of the database for a subject. */
const MOST_LENGTH = 300;
/**
 * A notice is withdrawn when no process has found it for so long: two looks and a half. Another process of the host may still find
 * it.
 */
const FOUND_AGAIN_MS = 25 * 60_000;
/** The same time for a notice that only a process of another host can find. */
const HOST_OFF_MS = DAY_MS;

/** Makes the notices about the installation, and withdraws those that are not true any more. */
export async function noticeInstallation(
  context: NoticeContext,
  { days }: NoticeSettings,
  { host, certificateEndsAt, backup, wrongModelFiles, modelsPlace }: InstallationState,
): Promise<void> {
  const now = context.clock.now();
  const [token] = await context.database.query<{ expiresAt: Date | null }>(
    (sql) => sql`select expires_at as "expiresAt" from installer_token`,
  );
  const found = [
    // Another process of this host may have one.
    ...(certificateEndsAt === undefined
      ? []
      : [
          ending(certificateEndsAt, {
            kind: "certificate_end",
            subject: `certificate of ${host}`,
            isOver: never,
            days,
            now,
            more: { host },
          }),
        ]),
    ending(token?.expiresAt ?? null, {
      kind: "installer_token_end",
      subject: "installer token",
      isOver: always,
      days,
      now,
      more: {},
    }),
    overdue(backup, now),
    ...(wrongModelFiles === undefined ? [] : [await wrongFiles(context, modelsPlace, wrongModelFiles)]),
  ];
  for (const one of found) await noticeOne(context, one);
  for (const kind of ["certificate_end", "backup_overdue", "model_files"] as const)
    await withdraw(context, {
      kind,
      why: (sql, now) => sql`case when ${isUnseen(sql, now, HOST_OFF_MS)} then ${word(sql, "unseen")} end`,
    });
}

const always = (sql: Sql) => sql`true`;
const never = (sql: Sql) => sql`false`;

interface Ending extends Pick<Found, "kind" | "subject" | "isOver"> {
  /** The days before an end that have a notice, the most first. */
  readonly days: readonly number[];
  readonly now: Date;
  /** Facts besides those of every end. */
  readonly more: Readonly<Record<string, string>>;
}

/** Returns the nearest stage of an end. */
function ending(end: Date | null, { kind, subject, isOver, days, now, more }: Ending): Found {
  const nearest = [0, ...days.toReversed()].find(
    (days) => end !== null && end.getTime() - days * DAY_MS <= now.getTime(),
  );
  const of = { kind, subject, occasion: end && toTimestamp(end), isOver };
  if (end === null || nearest === undefined) return of;
  const trueSince = new Date(end.getTime() - nearest * DAY_MS);
  const facts = { ends_at: toTimestamp(end), days: nearest, ...more };
  return { ...of, notice: { stage: -nearest, trueSince, facts } };
}

function overdue({ since, dueAt, isOverdue }: InstallationState["backup"], now: Date): Found {
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

async function wrongFiles(context: NoticeContext, place: string, wrong: WrongFiles | null): Promise<Found> {
  const of = { kind: "model_files", subject: place.slice(0, MOST_LENGTH), isOver: never } as const;
  if (wrong === null) return { ...of, occasion: null };
  const trueSince = context.clock.now();
  const occasion = await occasionOfFault(context, of.subject, wrong.fault);
  return { ...of, occasion, notice: { stage: 0, trueSince, facts: { wrong: wrong.says, place } } };
}

/**
 * Returns the occasion of a fault of model files: the fault and the day (UTC). While a notice of the fault is open, it is that of this
 * notice. So is it on the day on which an operator has marked it as done: if the fault is still there on the next day, there is another
 * notice.
 */
async function occasionOfFault(
  { database, clock }: NoticeContext,
  subject: string,
  fault: WrongFiles["fault"],
): Promise<string> {
  const day = toDay(clock.now());
  const [had] = await database.query<{ occasion: string }>(
    (sql) => sql`
      select occasion from notices
       where kind = 'model_files' and subject = ${subject}::text and starts_with(occasion, ${`${fault} since `}::text)
         and (state = 'open' or state = 'done' and (closed_at at time zone 'UTC')::date >= ${day}::date)
       order by state desc, occasion limit 1`,
  );
  return had?.occasion ?? `${fault} since ${day}`;
}

/** Returns the condition, as SQL, that no process has found the notice `n` for so long. */
function isUnseen(sql: Sql, now: Date, ms: number): Fragment {
  return sql`coalesce(n.seen_at, n.made_at) < ${new Date(now.getTime() - ms)}::timestamptz`;
}

/** Makes the notice of a subject, if there is one, notes that it was found, and withdraws the open ones of other occasions. */
async function noticeOne(
  context: NoticeContext,
  { kind, subject, occasion, notice, isOver }: Found,
): Promise<void> {
  const { database, clock } = context;
  if (notice !== undefined) {
    const now = clock.now();
    await database.query(
      (sql) => sql`
        with found as (
          select *
            from (select ${subject}::text as subject, ${occasion}::text as occasion, ${notice.stage}::integer as stage,
                         null::uuid as license_id, null::uuid as key_id, ${notice.trueSince}::timestamptz as true_since,
                         ${JSON.stringify(notice.facts)}::text::jsonb as facts) as staged
           where ${isNew(sql, kind, sql`staged`)}
        ),
        ${makeCtes(sql, { kind, now })}
        update notices n set seen_at = ${now}::timestamptz
         where n.kind = ${kind}::text and n.subject = ${subject}::text and n.occasion = ${occasion}::text and n.state = 'open'
           and not exists (select from made where made.id = n.id)
           and not exists (select from replaced where replaced.id = n.id)`,
    );
  }
  await withdraw(context, {
    kind,
    why: (sql, now) => sql`
      case when n.subject = ${subject}::text and n.occasion is distinct from ${occasion}::text
                and (${isOver(sql)} or ${isUnseen(sql, now, FOUND_AGAIN_MS)}) then ${word(sql, "mended")} end`,
  });
}
