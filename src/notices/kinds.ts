/** The kinds of notices, the states of a notice, and why one is withdrawn. */
import { SILENT_DAYS } from "../licensing/keys/mod.ts";

/** An end that lies further back has no notice: a new version must not tell of every license that ever ended, nor keep them all open. */
export const ENDED_NOTED_DAYS = 30;
/** A use that lies further back makes no notice, and neither does a rotated key whose end lies further back. */
export const USE_NOTED_DAYS = 30;
/** A rotated key that was not used for so long is not used any more. */
export const UNUSED_DAYS = 7;

/** What each kind tells, in the words of the manual. */
export const KIND_MEANINGS = {
  license_end: "a license ends soon, or has ended",
  updates_end: "the updates of a license end soon, or have ended",
  quota_used: "a license has used a share of the quota of its month",
  quota_runs_out:
    "a license will have used its quota up before the month ends, at the rate of the last seven days",
  places_full: "all places for machines of a license have been taken for an hour",
  refusals: "a key was refused often in one hour",
  rotated_key_used: "a key is used an hour or longer after it was rotated",
  silent_key_used: `a key is used again after ${SILENT_DAYS} days without a use`,
  backup_overdue: "the next backup is overdue",
  certificate_end: "the certificate of a host ends soon, or has ended",
  installer_token_end: "the stored repository token ends soon, or has ended",
  model_files: "files of models are missing, cut short or out of reach",
} as const;

export type NoticeKind = keyof typeof KIND_MEANINGS;

export const NOTICE_KINDS = Object.keys(KIND_MEANINGS) as readonly NoticeKind[];

/** What each state of a notice means, in the words of operators. */
export const STATE_MEANINGS = {
  open: "it is true, and nobody has marked it as done",
  later: "it is open, but an operator has put it off until a day",
  done: "an operator has marked it as done",
  withdrawn: "it is not true any more, such as after a renewal",
  replaced: "a nearer notice of the same occasion took its place",
} as const;

export type NoticeState = keyof typeof STATE_MEANINGS;

export const NOTICE_STATES = Object.keys(STATE_MEANINGS) as readonly NoticeState[];

/** Why a notice is withdrawn, as it is stored, and in words. */
export const WITHDRAWN_WORDS = {
  muted: "the license or its account is muted",
  no_key: "every key of the license is revoked",
  other_end: "the end is another one now",
  long_ended: `the end lies more than ${ENDED_NOTED_DAYS} days back`,
  ahead: "it is not true yet: a clock that was ahead made it",
  license_ended: "the license has ended",
  other_limit: "the limit is another one now",
  below: "the use is below the share again",
  month_over: "the month is over",
  used_up: "the quota is used up",
  lasts: "the quota lasts until the month ends",
  place_free: "a place was free again",
  stopped: "the key was not refused so often for a day",
  unused: `the key was not used for ${UNUSED_DAYS} days`,
  long_ago: `the use lies more than ${USE_NOTED_DAYS} days back`,
  revoked: "the key was revoked",
  mended: "it was put right, or is another one now",
  unseen: "no process has found it for a day, such as after its host was switched off",
} as const;

export type WithdrawnFor = keyof typeof WITHDRAWN_WORDS;
