/** What an installation decides about its notices. */
export interface NoticeSettings {
  /** How many days before an end there is a notice, the most days first. */
  readonly days: readonly number[];
  /** At which shares of the quota of a month there is a notice, in percent, the lowest first. */
  readonly shares: readonly number[];
  /** A key that is refused more often in an hour has a notice. */
  readonly refusalsAnHour: number;
}
