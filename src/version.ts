import packageJson from "../package.json" with { type: "json" };

/** The program's version, as `claviger version` and the metrics tell it. */
export const VERSION: string = packageJson.version;
