/**
 * Notices about the installation: its backup, its certificate, the installer token and the files of models. The rooms above
 * know its state by their own rules, and hand it over.
 */
import { DAY_MS, toTimestamp } from "../base/calendar.ts";
import { inBatches, isNew, makeCtes, type NoticeContext, withdraw } from "./_make.ts";
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
  /** Null if there is nothing to notice. */
  readonly occasion: string | null;
  readonly stage: number;
  readonly trueSince: Date;
  readonly facts: Readonly<Record<string, string | number>>;
}

/** The longest text of the database for a subject or an occasion. */
const MOST_LENGTH = 300;

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
    endingAt("installer_token_end", "installer token", token?.expiresAt ?? null),
    overdue(state.backup),
    ...(state.wrongModelFiles === undefined ? [] : [wrongFiles(state.modelsPlace, state.wrongModelFiles)]),
  ];
  for (const one of found) await noticeOne(context, one);

  function endingAt(kind: NoticeKind, subject: string, end: Date | null): Found {
    const stages = [0, ...settings.days.toReversed()];
    const days = stages.find((days) => end !== null && end.getTime() - days * DAY_MS <= now.getTime());
    if (end === null || days === undefined)
      return { ...NOTHING, kind, subject, occasion: end && toTimestamp(end), stage: NOT_NEAR };
    const trueSince = new Date(end.getTime() - days * DAY_MS);
    const facts = {
      ends_at: toTimestamp(end),
      days,
      ...(kind === "certificate_end" && { host: state.host }),
    };
    return { kind, subject, occasion: toTimestamp(end), stage: -days, trueSince, facts };
  }

  function overdue({ since, dueAt, isOverdue }: InstallationState["backup"]): Found {
    const of = { kind: "backup_overdue", subject: "backup" } as const;
    if (!isOverdue) return { ...NOTHING, ...of };
    // A time ahead was written by a wrong clock, so nobody knows since when it is true.
    const trueSince = dueAt <= now ? dueAt : now;
    const facts = { last_at: toTimestamp(since), due_at: toTimestamp(dueAt) };
    return { ...of, occasion: toTimestamp(since), stage: 0, trueSince, facts };
  }

  function wrongFiles(place: string, wrong: string | null): Found {
    const of = { kind: "model_files", subject: place.slice(0, MOST_LENGTH) } as const;
    if (wrong === null) return { ...NOTHING, ...of };
    return {
      ...of,
      occasion: wrong.slice(0, MOST_LENGTH),
      stage: 0,
      trueSince: now,
      facts: { wrong, place },
    };
  }
}

/** The stage of an end of which no day has come yet. */
const NOT_NEAR = -1_000_000;

const NOTHING = { occasion: null, stage: 0, trueSince: new Date(0), facts: {} };

/** Makes the notice of a subject, if there is one, and withdraws the open ones of other occasions. */
async function noticeOne(
  context: NoticeContext,
  { kind, subject, occasion, stage, trueSince, facts }: Found,
): Promise<void> {
  if (occasion !== null && stage !== NOT_NEAR)
    await inBatches(
      context,
      {},
      (sql, _, now) => sql`
        with staged as materialized (
          select ${subject}::text as subject, ${occasion}::text as occasion, ${stage}::integer as stage, null::uuid as license_id,
                 null::uuid as key_id, ${trueSince}::timestamptz as true_since, ${JSON.stringify(facts)}::text::jsonb as facts
        ),
        found as (select * from staged where ${isNew(sql, kind, sql`staged`)}),
        ${makeCtes(sql, { kind, now })}
        select null::uuid as uuid where false`,
    );
  await withdraw(context, {
    kind,
    // Whether an end lies ahead is asked for the moment, as that of a license.
    why: (sql, now) => sql`
      case when n.subject <> ${subject}::text then null
           when n.occasion is distinct from ${occasion}::text then 'mended'
           when n.stage = 0 and n.kind in ('certificate_end', 'installer_token_end')
                and (n.facts->>'ends_at')::timestamptz > ${now}::timestamptz then 'not_ended'
      end`,
  });
}
