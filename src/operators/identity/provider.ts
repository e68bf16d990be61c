/**
 * The login at the provider: authorization code flow with PKCE, state and nonce. `openid-client` checks the answers:
 * state, `iss`, signature, audience, nonce and times of the ID token. It is loaded when somebody logs in, because it
 * takes 5 MB. Nothing is kept between two logins, so that new keys of the provider and a new secret apply at once.
 *
 * https://openid.net/specs/openid-connect-core-1_0.html
 */
import type { ClientAuth, IDToken, UserInfoResponse } from "openid-client";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { codeOf, reasonOf } from "../../base/system_error.ts";
import { FRESH_PROOF_MS, ROLES, type Role } from "../mod.ts";
import { failureIn, fetchBounded, LIMIT_MS, ProviderFailure, readFiles } from "./_requests.ts";
import type { ProviderSettings } from "./provider_settings.ts";

/** What the browser keeps between the start of a login and its end. It must be sealed. */
export interface LoginState {
  readonly state: string;
  readonly nonce: string;
  /** The secret of PKCE. */
  readonly verifier: string;
  /** Whether the person was to prove anew who they are. */
  readonly isFresh: boolean;
}

interface ProvenPerson {
  readonly issuer: string;
  readonly subject: string;
  readonly wantedName: string;
  /** The highest role of the person's groups; undefined without a group that has a role. */
  readonly role: Role | undefined;
  /** When the person proved who they are; 1970 if the provider does not say. Never too late if its clock is ahead. */
  readonly provedAt: Date;
}

export type Provider = ReturnType<typeof createProvider>;

interface ProviderContext {
  readonly clock: Clock;
  readonly log: Log;
}

/** How far the clocks of the two hosts may differ, in seconds. */
const CLOCK_TOLERANCE = 60;
const MOST_CHARACTERS = 255;
/** OpenID Connect Core, section 2. PostgreSQL cannot store every character, and the rest of them is no text. */
const SUBJECT = /^[^\p{C}]{1,255}$/u;

/** Creates the client of the provider. Refuses files that cannot be read, which are read again at each login. */
export function openProvider(settings: ProviderSettings, context: ProviderContext): Provider | Refusal {
  try {
    readFiles(settings);
  } catch (error) {
    const why = failureIn(error)?.inFull ?? reasonOf(error);
    return refuse("INVALID_REQUEST", `The identity provider ${settings.name} ${why}`);
  }
  return createProvider(settings, context);
}

function createProvider(settings: ProviderSettings, { clock, log }: ProviderContext) {
  const { name, issuer, clientId, adminUrl } = settings;
  const redirectUri = `${adminUrl}/console/callback`;
  const afterLogout = `${adminUrl}/console/enter?done=logged-out`;
  const anotherIssuer = `is no OpenID provider with the issuer ${issuer}`;

  /** Asks the provider for its endpoints. */
  async function connect() {
    const oidc = await import("openid-client");
    const { secret, ca } = readFiles(settings);
    const limit = AbortSignal.timeout(LIMIT_MS);
    const authenticate: ClientAuth = (server, ...rest) => {
      // Basic is the standard's default.
      const ways = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
      const way = ways.includes("client_secret_basic") ? oidc.ClientSecretBasic : oidc.ClientSecretPost;
      return way(secret)(server, ...rest);
    };
    const skew = (clock.nowMs() - Date.now()) / 1_000;
    const metadata = { [oidc.clockTolerance]: CLOCK_TOLERANCE, [oidc.clockSkew]: Math.round(skew) };
    const extensions = [
      // The signature of an ID token is checked, too, although it comes from the provider itself.
      oidc.enableNonRepudiationChecks,
      ...(issuer.startsWith("http:") ? [oidc.allowInsecureRequests] : []),
    ];
    const config = await oidc
      .discovery(new URL(issuer), clientId, metadata, authenticate, {
        execute: extensions,
        [oidc.customFetch]: (url, options) => fetchBounded(url, options, { ca, limit }),
      })
      .catch((error) => {
        throw failureIn(error) ?? new ProviderFailure(anotherIssuer);
      });
    // The library lets providers of Microsoft have other issuers, also one that stands for every organisation.
    if (new URL(config.serverMetadata().issuer).href !== new URL(issuer).href)
      throw new ProviderFailure(anotherIssuer);
    return { oidc, config };
  }

  /** Runs a step of a login. Its failure becomes a refusal for the page. The log says more, but repeats no answer. */
  async function run<Result>(step: () => Promise<Result | Refusal>): Promise<Result | Refusal> {
    try {
      return await step();
    } catch (error) {
      const failure = failureIn(error);
      const refusal = failure
        ? refuse("SERVICE_UNAVAILABLE", `${name} ${failure.message}; a link by command still works`)
        : await judge(error);
      const fields = {
        reason: failure?.inFull ?? refusal.sentence,
        detail: failure ? undefined : codeOf(error),
      };
      log.warn("nobody could log in at the identity provider", fields, { kind: { code: refusal.code } });
      return refusal;
    }
  }

  /** Says why nobody was logged in. The provider's own words are left out but for a code of its protocol. */
  async function judge(error: unknown): Promise<Refusal> {
    const oidc = await import("openid-client");
    const isCoded =
      error instanceof oidc.AuthorizationResponseError || error instanceof oidc.ResponseBodyError;
    const code = isCoded && /^[a-z_]{1,60}$/.test(error.error) ? error.error : undefined;
    if (code === "invalid_client" || error instanceof oidc.WWWAuthenticateChallengeError)
      return refuse(
        "SERVICE_UNAVAILABLE",
        `${name} does not know this service: its CLAVIGER_OIDC_CLIENT_ID or the secret of the client is wrong`,
      );
    const why = code === undefined ? "its answer is not valid for this login" : `it answered ${code}`;
    return refuse("INVALID_TOKEN", `${name} did not log you in: ${why}; try it again`);
  }

  return {
    name,
    /** What the administrator of the provider must enter there. */
    redirectUri,
    afterLogout,
    groups: settings.roles.map(({ group }) => group),
    /** Begins a login: returns the address to which the browser goes, and what the end of the login needs. */
    begin: (isFresh: boolean) =>
      run(async () => {
        const { oidc, config } = await connect();
        const state: LoginState = {
          state: oidc.randomState(),
          nonce: oidc.randomNonce(),
          verifier: oidc.randomPKCECodeVerifier(),
          isFresh,
        };
        const hasGroups = config.serverMetadata().scopes_supported?.includes("groups");
        const address = oidc.buildAuthorizationUrl(config, {
          redirect_uri: redirectUri,
          scope: `openid profile${hasGroups ? " groups" : ""}`,
          state: state.state,
          nonce: state.nonce,
          code_challenge: await oidc.calculatePKCECodeChallenge(state.verifier),
          code_challenge_method: "S256",
          // Asks for a new login also if the provider has a session.
          ...(isFresh && { max_age: "0" }),
        });
        return { address: address.href, state };
      }),
    /** Ends a login: exchanges the code in the query of the callback for who the person is. */
    finish: (query: URLSearchParams, { state, nonce, verifier, isFresh }: LoginState) =>
      run(async (): Promise<ProvenPerson> => {
        const { oidc, config } = await connect();
        const tokens = await oidc.authorizationCodeGrant(config, new URL(`${redirectUri}?${query}`), {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
          ...(isFresh && { maxAge: FRESH_PROOF_MS / 1_000 }),
        });
        const claims = tokens.claims();
        if (claims === undefined) throw new ProviderFailure("sent no ID token");
        const information =
          claims.groups === undefined && config.serverMetadata().userinfo_endpoint !== undefined
            ? await oidc.fetchUserInfo(config, tokens.access_token, claims.sub)
            : {};
        return toPerson(claims, information);
      }),
    /** Returns the address at which the provider ends its own session; undefined if it has none. */
    logoutAddress: () =>
      run(async () => {
        const { oidc, config } = await connect();
        if (config.serverMetadata().end_session_endpoint === undefined)
          return refuse("NOT_FOUND", `${name} offers no logout: close the browser to end its session`);
        const asked = { client_id: clientId, post_logout_redirect_uri: afterLogout };
        return { address: oidc.buildEndSessionUrl(config, asked).href };
      }),
    /** Asks the provider for its endpoints, for `doctor`. */
    examine: () =>
      run(async () => {
        const { config } = await connect();
        return { hasLogout: config.serverMetadata().end_session_endpoint !== undefined };
      }),
  };

  function toPerson(token: IDToken, information: Partial<UserInfoResponse>): ProvenPerson {
    const { iss, sub, iat, auth_time: provedSeconds = 0 } = token;
    const { preferred_username: username, groups } = { ...information, ...token };
    if (!SUBJECT.test(sub))
      throw new ProviderFailure("sent a subject that is no text of 1 to 255 characters");
    const given = [groups].flat();
    const roles = settings.roles.filter(({ group }) => given.includes(group)).map(({ role }) => role);
    const role = ROLES.findLast((each) => roles.includes(each));
    if (role === undefined) {
      const sent = groups === undefined ? "no claim groups" : `${given.length} groups`;
      log.warn("somebody without a group that may log in was refused", { subject: sub, sent }, { kind: {} });
    }
    const nowMs = clock.nowMs();
    // If the provider's clock is ahead, only the time from the proof to the token is certain.
    const provedMs = Math.min(nowMs, provedSeconds * 1_000, nowMs - (iat - provedSeconds) * 1_000);
    return {
      issuer: iss,
      subject: sub,
      wantedName: typeof username === "string" ? username.slice(0, MOST_CHARACTERS) : "",
      role,
      provedAt: new Date(Math.max(0, provedMs)),
    };
  }
}
