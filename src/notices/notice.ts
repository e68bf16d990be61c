import type { NoticeKind, NoticeState, WithdrawnFor } from "./kinds.ts";

/** A notice as operators see it. */
export interface NoticeSummary {
  readonly id: string;
  readonly kind: NoticeKind;
  readonly state: NoticeState;
  /** For an end, minus the days before it, and 0 after it; for a quota, the percent; otherwise 0. */
  readonly stage: number;
  /** The account, the license and the key that it is about; null for a notice about the installation. */
  readonly userId: string | null;
  readonly licenseId: string | null;
  readonly keyId: string | null;
  readonly email: string | null;
  /** What people recognise the key by. */
  readonly key: string | null;
  /** When it became true. */
  readonly trueSince: Date;
  readonly madeAt: Date;
  /** The numbers and times of its sentence. */
  readonly facts: Readonly<Record<string, unknown>>;
  /** The day until which an operator has put it off; null if nobody has. */
  readonly remindAt: Date | null;
  readonly closedAt: Date | null;
  /** As the audit log names it. */
  readonly closedBy: string | null;
  readonly withdrawnFor: WithdrawnFor | null;
}

/** Tells whether a notice is open, also if an operator has put it off. */
export function isOpenNotice({ state }: NoticeSummary): boolean {
  return state === "open" || state === "later";
}
