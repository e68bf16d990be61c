/**
 * The login at the provider: authorization code flow with PKCE, state and nonce. `openid-client` checks the answers:
 * state, `iss`, signature, audience, nonce and times of the ID token. It is loaded when somebody logs in, because it
 * takes 5 MB. Nothing is kept between two logins, so that new keys of the provider and a new secret apply at once.
 *
 * https://openid.net/specs/openid-connect-core-1_0.html
 */
import type { ClientAuth, ServerMetadata } from "openid-client";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { type Refusal, refuse } from "../../base/refusal.ts";
import { codeOf, reasonOf } from "../../base/system_error.ts";
import { FRESH_PROOF_MS } from "../mod.ts";
import { differenceIn, issuerIn, showValue } from "./_differences.ts";
import { failureIn, fetchBounded, LIMIT_MS, ProviderFailure, readFiles } from "./_requests.ts";
import type { ProviderSettings } from "./provider_settings.ts";
import { hasClaim, type ProvenPerson, readPerson } from "./read_person.ts";

/** What the browser keeps between the start of a login and its end. It must be sealed. */
export interface LoginState {
  readonly state: string;
  readonly nonce: string;
  /** The secret of PKCE. */
  readonly verifier: string;
  /** Whether the person was to prove anew who they are. */
  readonly isFresh: boolean;
}

export type Provider = ReturnType<typeof createProvider>;

interface ProviderContext {
  readonly clock: Clock;
  readonly log: Log;
}

/** How far the clocks of the two hosts may differ, in seconds. */
const CLOCK_TOLERANCE = 60;

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
  const { name, issuer, clientId, adminUrl, groupsClaim } = settings;
  const redirectUri = `${adminUrl}/console/callback`;
  const afterLogout = `${adminUrl}/console/enter?done=logged-out`;

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
        throw failureIn(error) ?? anotherIssuer(issuerIn(error));
      });
    // The library lets providers of Microsoft have other issuers, also one that stands for every organisation.
    const announced = config.serverMetadata().issuer;
    if (new URL(announced).href !== new URL(issuer).href) throw anotherIssuer(announced);
    return { oidc, config };
  }

  function anotherIssuer(announced: string | undefined) {
    const which = announced && `: it announces ${showValue(announced)}`;
    return new ProviderFailure(`is no OpenID provider with the issuer ${issuer}${which ?? ""}`);
  }

  /** The scopes that a login asks for. */
  function scopesAt({ scopes_supported: supported }: ServerMetadata) {
    return settings.scopes ?? `openid profile${supported?.includes("groups") ? " groups" : ""}`;
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
    const difference = differenceIn(error);
    if (difference) return refuse("INVALID_TOKEN", `${name} did not log you in: ${difference}`);
    const why = code === undefined ? "its answer is not valid for this login" : `it answered ${code}`;
    return refuse("INVALID_TOKEN", `${name} did not log you in: ${why}; try it again`);
  }

  return {
    name,
    /** What the administrator of the provider must enter there. */
    redirectUri,
    afterLogout,
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
        const address = oidc.buildAuthorizationUrl(config, {
          redirect_uri: redirectUri,
          scope: scopesAt(config.serverMetadata()),
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
          !hasClaim(claims, groupsClaim) && config.serverMetadata().userinfo_endpoint !== undefined
            ? await oidc.fetchUserInfo(config, tokens.access_token, claims.sub)
            : {};
        const person = readPerson(claims, information, { settings, nowMs: clock.nowMs() });
        const { access, subject } = person;
        if (access.role === undefined) {
          const fields = { subject, sent: access.sent, groups: access.groups };
          log.warn("somebody without a group that may log in was refused", fields, { kind: {} });
        }
        return person;
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
        const metadata = config.serverMetadata();
        return {
          hasLogout: metadata.end_session_endpoint !== undefined,
          scopes: scopesAt(metadata),
          groupsClaim,
        };
      }),
  };
}
