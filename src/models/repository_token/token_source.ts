import type { Clock } from "../../base/clock.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import type { Secrets } from "../../base/secrets/mod.ts";
import type { Database } from "../../database/mod.ts";
import { TOKEN_PURPOSE } from "./static_token.ts";

export interface InstallerToken {
  readonly token: string;
  /** Null for a token that does not expire. */
  readonly expiresAt: Date | null;
}

export interface TokenSource {
  /** Returns the token to hand out; refuses with `NOT_CONFIGURED` if no token is set or it has expired. */
  current(): Promise<InstallerToken | Refusal>;
}

const NOT_SET = "The repository token is not configured on this server; ask its operator";
const OVER = "The repository token of this server has expired; ask its operator for a new one";

/** Creates a source of the token that the operator stored with `claviger installer set-token`. */
export function createTokenSource(options: {
  readonly database: Database;
  readonly secrets: Secrets;
  readonly clock: Clock;
}): TokenSource {
  const { database, secrets, clock } = options;
  return {
    async current() {
      const [row] = await database.read<{ sealed: string; expiresAt: Date | null }>(
        (sql) => sql`select sealed, expires_at as "expiresAt" from installer_token`,
      );
      if (row === undefined) return refuse("NOT_CONFIGURED", NOT_SET);
      if (row.expiresAt !== null && row.expiresAt <= clock.now()) return refuse("NOT_CONFIGURED", OVER);
      const token = secrets.open(TOKEN_PURPOSE, row.sealed);
      // The canary proved the secret at start, so a token that does not open was tampered with.
      if (token === undefined) throw new Error("The stored repository token does not open with this secret");
      return { token, expiresAt: row.expiresAt };
    },
  };
}
