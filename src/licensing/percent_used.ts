/** Returns the whole part of the percentage of a limit that is used; null without a limit. */
export function percentUsed(used: number, limit: number | null): number | null {
  if (limit === null) return null;
  return limit === 0 ? 100 : Math.floor((used * 100) / limit);
}
