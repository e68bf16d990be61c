/**
 * The customers of the demo: who they are, how much they use, and what happened to them. All are invented. The numbers
 * of days count from the day on which the demo is added.
 */
import type { Actor } from "../../audit/mod.ts";
import type { LicenseChange, Tier } from "../../licensing/mod.ts";
import type { Code, KeyFlaw } from "../../refusal.ts";

export interface DemoCustomer {
  /** The part of the e-mail before `@demo.example`. */
  readonly name: string;
  readonly organization: string;
  readonly tier: Tier;
  /** The tier before a change of it. */
  readonly firstTier?: Tier;
  /** How many days ago the key was issued. */
  readonly since: number;
  /** Inferences on a working day, at the end of the ninety days; 0: the key was never used. */
  readonly perDay: number;
  /** The part of it that a day of a weekend has. */
  readonly weekend: number;
  /** How many days ago the key was used last. */
  readonly until: number;
  /** In how many days the license expires; negative for an expired one. */
  readonly expiresIn: number;
  /** Has used most of this month's quota. */
  readonly isNearQuota: boolean;
  readonly changes: readonly DemoChange[];
  readonly refusals: readonly DemoRefusals[];
}

export interface DemoChange {
  readonly daysAgo: number;
  readonly change: "suspend" | "resume" | "rotate" | "revoke" | Pick<LicenseChange, "tier">;
  /** By default the user who adds the demo. */
  readonly by?: Pick<Actor, "kind" | "name">;
}

/** Two operators and the program of a shop. No real ones have such names: the audit log keeps its rows for ever. */
const INES = { kind: "operator", name: "demo-ines" } as const;
const MAREK = { kind: "operator", name: "demo-marek" } as const;
const SHOP = { kind: "token", name: "demo-shop" } as const;

/** Requests that were refused for one reason. */
export interface DemoRefusals {
  readonly endpoint: string;
  readonly code: Code;
  readonly reason?: KeyFlaw;
  /** The first and the last day on which there were any, as days ago. */
  readonly from: number;
  readonly to: number;
  /** How many there were in a busy hour. */
  readonly perHour: number;
  /** The hours of the day, UTC, with any; by default those in which people work. */
  readonly hours?: readonly [first: number, last: number];
}

/** The days with use, including today. */
export const DEMO_DAYS = 90;

/** Before the ninety days. */
const BEFORE = 92;

const ALL_DAY = [0, 23] as const;

type Rest = Partial<DemoCustomer> & Pick<DemoCustomer, "perDay">;

function customer(name: string, organization: string, tier: Tier, rest: Rest): DemoCustomer {
  const defaults = { since: BEFORE, weekend: 0.2, until: 0, expiresIn: 273, isNearQuota: false };
  return { name, organization, tier, ...defaults, changes: [], refusals: [], ...rest };
}

export const DEMO_CUSTOMERS: readonly DemoCustomer[] = [
  customer("fjordhall", "Fjordhall Robotics", "enterprise", { perDay: 14_000, weekend: 0.75 }),
  customer("kestrel", "Kestrel Prosthetics", "commercial", {
    firstTier: "research",
    perDay: 9_400,
    weekend: 0.6,
    changes: [{ daysAgo: 55, change: { tier: "commercial" } }],
    refusals: [
      { endpoint: "analytics", code: "RATE_LIMIT_EXCEEDED", from: 1, to: 1, perHour: 640, hours: [20, 22] },
    ],
  }),
  customer("tidewater", "Tidewater Rehabilitation", "commercial", { perDay: 6_200, weekend: 0.35 }),
  customer("aldermoor", "Aldermoor University", "research", {
    firstTier: "free",
    perDay: 1_450,
    changes: [{ daysAgo: 61, change: { tier: "research" } }],
  }),
  customer("verrane", "Verrane Institute", "research", { perDay: 1_250, expiresIn: 6 }),
  customer("lumen", "Lumen Speller Project", "research", {
    perDay: 900,
    weekend: 0.45,
    changes: [{ daysAgo: 14, change: "rotate", by: MAREK }],
    refusals: [
      {
        endpoint: "validate",
        code: "KEY_EXPIRED",
        reason: "expired",
        from: 7,
        to: 0,
        perHour: 3,
        hours: ALL_DAY,
      },
    ],
  }),
  customer("hollin", "Hollin Sleep Laboratory", "research", {
    perDay: 640,
    weekend: 1.1,
    changes: [
      { daysAgo: 33, change: "suspend", by: SHOP },
      { daysAgo: 31, change: "resume", by: SHOP },
    ],
    refusals: [
      { endpoint: "validate", code: "INVALID_KEY", reason: "suspended", from: 32, to: 32, perHour: 9 },
    ],
  }),
  customer("marrow", "Marrow & Finch", "research", {
    perDay: 480,
    until: 9,
    expiresIn: -9,
    refusals: [
      {
        endpoint: "validate",
        code: "KEY_EXPIRED",
        reason: "expired",
        from: 8,
        to: 0,
        perHour: 6,
        hours: ALL_DAY,
      },
    ],
  }),
  customer("quillon", "Quillon Games", "free", {
    perDay: 190,
    weekend: 2.1,
    changes: [{ daysAgo: 5, change: "rotate", by: INES }],
  }),
  customer("osprey", "Osprey Makers", "free", {
    perDay: 120,
    weekend: 1.8,
    refusals: [
      { endpoint: "downloads", code: "LICENSE_REQUIRED", from: 40, to: 0, perHour: 1, hours: [16, 19] },
    ],
  }),
  customer("dunmore", "Dunmore College", "research", {
    perDay: 0,
    changes: [{ daysAgo: 4, change: "revoke", by: INES }],
  }),
  customer("sable", "Sable Interactive", "commercial", { perDay: 0 }),
  customer("northgate", "Northgate Neurology", "enterprise", { since: 74, perDay: 10_500, weekend: 0.9 }),
  customer("bramble", "Bramble Studio", "free", {
    since: 74,
    perDay: 90,
    until: 41,
    changes: [{ daysAgo: 8, change: "revoke", by: MAREK }],
  }),
  customer("ternwick", "Ternwick Clinic", "commercial", {
    since: 66,
    perDay: 7_800,
    expiresIn: 21,
    refusals: [{ endpoint: "analytics", code: "RATE_LIMIT_EXCEEDED", from: 60, to: 0, perHour: 4 }],
  }),
  customer("halvard", "Halvard Acoustics", "research", {
    since: 66,
    perDay: 700,
    until: 20,
    changes: [{ daysAgo: 20, change: "revoke", by: MAREK }],
    refusals: [
      {
        endpoint: "validate",
        code: "INVALID_KEY",
        reason: "revoked",
        from: 19,
        to: 12,
        perHour: 5,
        hours: ALL_DAY,
      },
    ],
  }),
  customer("mirepoix", "Mirepoix Motion Laboratory", "research", {
    since: 58,
    perDay: 1_100,
    isNearQuota: true,
  }),
  customer("cinder", "Cinder & Vale", "free", { since: 58, perDay: 240, isNearQuota: true }),
  customer("brightmoor", "Brightmoor Hospital", "commercial", {
    since: 47,
    perDay: 3_900,
    weekend: 0.8,
    until: 3,
    changes: [{ daysAgo: 3, change: "suspend", by: INES }],
    refusals: [
      {
        endpoint: "validate",
        code: "INVALID_KEY",
        reason: "suspended",
        from: 2,
        to: 0,
        perHour: 14,
        hours: ALL_DAY,
      },
    ],
  }),
  customer("pellar", "Pellar Exoskeletons", "commercial", {
    since: 38,
    perDay: 5_100,
    weekend: 0.5,
    expiresIn: 61,
  }),
  customer("wexcombe", "Wexcombe School", "free", { since: 38, perDay: 60, weekend: 0 }),
  customer("saltmarsh", "Saltmarsh University", "research", { since: 24, perDay: 820 }),
  customer("thornby", "Thornby Hearing", "research", {
    since: 24,
    perDay: 0,
    changes: [{ daysAgo: 6, change: "suspend", by: SHOP }],
  }),
  customer("vantry", "Vantry Labs", "free", {
    since: 11,
    perDay: 150,
    weekend: 1.4,
    refusals: [{ endpoint: "downloads", code: "LICENSE_REQUIRED", from: 10, to: 0, perHour: 2 }],
  }),
];

/** Requests that were refused although no customer sent them: without a key, or with one that never existed. */
export const NOBODYS_REFUSALS: readonly DemoRefusals[] = [
  {
    endpoint: "validate",
    code: "INVALID_KEY",
    reason: "unknown",
    from: 89,
    to: 0,
    perHour: 2,
    hours: ALL_DAY,
  },
  { endpoint: "validate", code: "INVALID_FORMAT", from: 89, to: 0, perHour: 0.7 },
  { endpoint: "analytics", code: "MISSING_EVENT_TYPE", from: 89, to: 0, perHour: 0.6 },
];
