/**
 * The reference for tests of the windows: it keeps every request with its time, and optimizes nothing.
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

  /** Counts the accepted and recorded requests of the last `spanMs`. A request of exactly that age is left out. */
  countedWithin(spanMs: number, nowMs: number): number {
    return this.requests.filter(({ atMs }) => atMs > nowMs - spanMs).length;
  }

  /** Counts the requests of this second and of the 60 seconds before it. */
  countedBySecond(nowMs: number): number {
    return this.#counted(Math.floor(nowMs / 1000)).length;
  }

  /** Returns the smallest whole number of seconds after which fewer than `limit` requests count. */
  secondsUntilRoom(limit: number, nowMs: number): number {
    const second = Math.floor(nowMs / 1000);
    let wait = 0;
    while (this.#counted(second + wait).length >= limit) wait += 1;
    return wait;
  }

  /** Returns the moment from which no request counts any more. */
  emptyAtMs(): number {
    return Math.max(...this.requests.map(({ atMs }) => (Math.floor(atMs / 1000) + 61) * 1000));
  }

  /** Returns the most requests that were accepted in any 60 seconds, both ends included. */
  mostAcceptedInAMinute(): number {
    const times = this.requests.filter(({ accepted }) => accepted).map(({ atMs }) => atMs);
    return Math.max(0, ...times.map((end) => times.filter((t) => t <= end && t >= end - 60_000).length));
  }

  #counted(second: number): NaiveRequest[] {
    return this.requests.filter(({ atMs }) => Math.floor(atMs / 1000) > second - 61);
  }
}
