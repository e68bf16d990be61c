/** @jsxImportSource hono/jsx */
/** What a license has by its tier and beside it, its features and its values: how pages and forms show them. */
import type { KeySummary } from "../../licensing/keys/mod.ts";
import {
  type Entitled,
  type Entitlements,
  type OwnFeatures,
  renderEntitlements,
  renderOwnFeatures,
} from "../../licensing/mod.ts";
import { Foreign, Lines, NONE } from "../frame/console/components/values.tsx";

interface FeaturesProps {
  readonly of: Pick<KeySummary, "features" | "ownFeatures">;
  readonly now: Date;
}

/** The features that a license has now, and below them what its tier does not decide. */
export function Features({ of: { features, ownFeatures }, now }: FeaturesProps) {
  const beside = describeOwnFeatures(ownFeatures, now);
  return (
    <Lines
      text={features.length === 0 ? NONE : features.join(", ")}
      more={beside !== "" && `Beside the tier: ${beside}`}
    />
  );
}

/**
 * Says which features the tier does not decide, as forms read them, and behind them those whose end has passed:
 * `custom_models until 2027-06-30, no streaming, training until 2026-06-30 (ended)`.
 */
export function describeOwnFeatures(own: OwnFeatures, now: Date): string {
  const { left = [], ended = [] } = Object.groupBy(Object.entries(own), ([, { until }]) =>
    until !== undefined && Date.parse(until) <= now.getTime() ? "ended" : "left",
  );
  const texts = ended.map((each) => `${renderOwnFeatures(Object.fromEntries([each]))} (ended)`);
  return [renderOwnFeatures(Object.fromEntries(left)), ...texts].filter(Boolean).join(", ");
}

/** The values of the license itself, and below them those that it has by its tier. */
export function Values({ of: { ownEntitlements, tierEntitlements } }: { readonly of: Entitled }) {
  const own = renderEntitlements(ownEntitlements);
  const ofTier = renderEntitlements(without(tierEntitlements, ownEntitlements));
  if (own === "" && ofTier === "") return NONE;
  if (own === "") return <Foreign text={`${ofTier} (by the tier)`} />;
  return (
    <Lines
      text={<Foreign text={own} />}
      more={
        ofTier !== "" && (
          <>
            By the tier: <Foreign text={ofTier} />
          </>
        )
      }
    />
  );
}

/** Returns the values that no other value replaces. */
function without(values: Entitlements, others: Entitlements): Entitlements {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !Object.hasOwn(others, name)));
}
