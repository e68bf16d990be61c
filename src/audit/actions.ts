/**
 * Every action of the audit log, grouped by what was changed. The code says what was changed, a dot, and how. The words
 * say what was done, and to what.
 */
const WORDS = {
  "key.issue": "issued the key",
  "key.import": "imported the key",
  "key.suspend": "suspended the key",
  "key.resume": "resumed the key",
  "key.rotate": "rotated the key",
  "key.replace": "replaced the key",
  "key.revoke": "revoked the key",
  "license.tier": "changed the tier of the key",
  "license.limit": "changed the monthly limit of the key",
  "license.machines": "changed the machines of the key",
  "license.renew": "renewed the license of the key",
  "license.offline": "changed the offline days of the key",
  "license.updates": "changed the end of updates of the key",
  "license.features": "changed the features of the key",
  "license.values": "changed the values of the key",
  "license.change": "changed the license of the key",
  "license.move": "moved the license of the key to another account",
  "license.start": "started the term of the key",
  "license.export": "exported a license file of the key",
  "usage.report": "imported a report of use for the license of the key",
  "machine.activate": "activated a machine with the key",
  "machine.release": "released a machine of the key",
  "machine.free": "freed the place that a license file held for a machine of the key",
  "notice.make": "made a notice",
  "notice.withdraw": "withdrew a notice",
  "notice.done": "marked a notice as done",
  "notice.remind": "put off a notice",
  "notice.due": "reminded of a notice that was put off",
  "notice.mute": "muted the notices",
  "notice.unmute": "let notices be made again",
  "account.update": "changed the account",
  "account.erase": "erased the person from the account",
  "model.add": "added the model",
  "model.upload": "uploaded the file of the model",
  "model.remove": "removed the model",
  "model.retire": "retired the model",
  "model.purge": "deleted the file of the model",
  "operator.create": "created the operator",
  "operator.login": "asked for a login code of the operator",
  "operator.role": "changed the role of the operator",
  "operator.remove": "removed the operator",
  "session.begin": "logged in",
  "session.fail": "failed to log in",
  "session.end": "ended the session of the operator",
  "token.issue": "issued the token",
  "token.renew": "renewed the token",
  "token.resume": "resumed the token",
  "token.revoke": "revoked the token",
  "signing_key.rotate": "rotated the signing key",
  "signing_key.retire": "retired the signing key",
  "tier.values": "changed the values of a tier",
  "installer.set_token": "set the repository token",
  "installer.clear_token": "cleared the repository token",
  "database.restore": "restored the database",
} as const;

export type AuditAction = keyof typeof WORDS;

/** The codes of all actions. */
export const ACTIONS = Object.keys(WORDS) as readonly AuditAction[];

/** Returns what an action did, in words; the code itself for an action of a newer version. */
export function wordsOf(action: string): string {
  return Object.hasOwn(WORDS, action) ? WORDS[action as AuditAction] : action;
}
