/**
 * The reference that the windows are tested against: every request with its time, and nothing clever.
 */
export interface NaiveRequest {
  readonly atMs: number;
  readonly accepted: boolean;
}

export class NaiveWindow {
  readonly requests: NaiveRequest[] = [];

  add(atMs: number, accepted: boolean): NaiveRequest {
    const request = { atMs, accepted };
    this.requests.push(request);
    return request;
  }

  remove(request: NaiveRequest): void {
    this.requests.splice(this.requests.indexOf(request), 1);
  }

  /** Requests of the last `spanMs`, accepted or recorded; one that is exactly that old is left out. */
  countedWithin(spanMs: number, nowMs: number): number {
    return this.requests.filter(({ atMs }) => atMs > nowMs - spanMs).length;
  }

  /** Requests that count by the second: those of this second and of the 60 before it. */
  countedBySecond(nowMs: number): number {
    return this.#counted(Math.floor(nowMs / 1000)).length;
  }

  /** The first whole number of seconds after which fewer than `limit` count. */
  secondsUntilRoom(limit: number, nowMs: number): number {
    const second = Math.floor(nowMs / 1000);
    let wait = 0;
    while (this.#counted(second + wait).length >= limit) wait += 1;
    return wait;
  }

  /** The moment at which nothing counts any more. */
  emptyAtMs(): number {
    return Math.max(...this.requests.map(({ atMs }) => (Math.floor(atMs / 1000) + 61) * 1000));
  }

  /** The most requests that were accepted in any 60 seconds, both ends included. */
  mostAcceptedInAMinute(): number {
    const times = this.requests.filter(({ accepted }) => accepted).map(({ atMs }) => atMs);
    return Math.max(0, ...times.map((end) => times.filter((t) => t <= end && t >= end - 60_000).length));
  }

  #counted(second: number): NaiveRequest[] {
    return this.requests.filter(({ atMs }) => Math.floor(atMs / 1000) > second - 61);
  }
}
